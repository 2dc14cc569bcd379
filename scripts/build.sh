#!/usr/bin/env bash
# scripts/build.sh [TARGET...]: installs what is missing, configures build/release and builds it.
# Quiet where it goes well; the whole output is in build/release/build.log.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/scripts/deps.sh"

build=$root/build/release
log=$build/build.log
mkdir -p "$build"

fresh=()
if [ -f "$build/CMakeCache.txt" ] &&
  ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
  fresh=(--fresh) # the clone was moved or copied
fi
if ! cmake -S "$root" --preset release "${fresh[@]}" >"$log" 2>&1; then
  cat "$log" >&2
  echo "build.sh: configuring failed" >&2
  exit 1
fi

# A compiler of this code takes up to 1.5 GiB: fewer jobs than processors where memory is short.
jobs=$(nproc)
by_memory=$(awk '/^MemAvailable/ { print int($2 / 1572864) }' /proc/meminfo 2>/dev/null || echo "$jobs")
if [ "${by_memory:-$jobs}" -lt "$jobs" ]; then jobs=$((by_memory > 0 ? by_memory : 1)); fi

targets=()
if [ $# -gt 0 ]; then targets=(--target "$@"); fi
progress() { # one line that is written over on a terminal, nothing elsewhere
  if [ -t 1 ]; then
    awk '{ print >> log_file; if (/^\[/) { printf "\r\033[KBuilding %s", $1; fflush() } }
         END { printf "\r\033[K" }' log_file="$log"
  else
    cat >>"$log"
  fi
}
if [ ! -t 1 ]; then echo "Building (the output goes to build/release/build.log)"; fi
if ! cmake --build "$build" --parallel "$jobs" "${targets[@]}" 2>&1 | progress; then
  if grep -q '^FAILED:' "$log"; then
    sed -n '/^FAILED:/,$p' "$log" | head -n 100 >&2
  elif grep '^ninja: error:' "$log" >&2; then # for example a target that there is not
    true
  else
    tail -n 20 "$log" >&2
  fi
  echo "build.sh: the build failed; all of its output is in $log" >&2
  exit 1
fi
