#!/usr/bin/env bash
# Installs what building and testing Heddle needs and this system lacks (Debian, Ubuntu), with sudo
# where the user is not root. Where nothing is missing, it takes a moment and asks the network nothing.
#
# deps.sh --bundle DIR installs nothing: it gathers the small libraries (fmt, nlohmann-json, CLI11,
# Catch2) in DIR, for scripts/gpu_check.sh --deps DIR on a machine without a network.
set -euo pipefail

bundle() { # DIR
  local target package files
  target=$(mkdir -p "$1" && cd "$1" && pwd)
  downloads=$(mktemp -d) # not local: the trap runs later
  trap 'rm -rf "$downloads"' EXIT
  cd "$downloads"
  files=(libfmt-dev nlohmann-json3-dev libcli11-dev catch2)
  # libfmt-dev holds a link to the library, which is in the package that it depends on.
  files+=("$(apt-cache depends libfmt-dev | sed -nE 's/.*Depends: (libfmt[0-9]+).*/\1/p' | head -n 1)")
  for package in "${files[@]}"; do
    if ! apt-get -q download "$package" >log 2>&1; then
      cat log >&2
      echo "deps.sh: cannot download $package (run apt-get update first?)" >&2
      exit 1
    fi
  done
  for package in *.deb; do dpkg-deb -x "$package" "$target"; done
  rm -rf "$target/usr/share/doc"
  echo "Bundled ${files[*]} in $target ($(du -sm "$target" | cut -f1) MiB)"
}

if [ "${1:-}" = --bundle ]; then
  if [ $# -ne 2 ]; then
    echo "usage: deps.sh [--bundle DIR]" >&2
    exit 2
  fi
  bundle "$2"
  exit 0
elif [ $# -gt 0 ]; then
  echo "deps.sh: unknown argument $1; usage: deps.sh [--bundle DIR]" >&2
  exit 2
fi

packages=(g++ cmake ninja-build libfmt-dev nlohmann-json3-dev libcli11-dev libdnnl-dev
  libboost-context-dev libthrust-dev libdw-dev
  libcurl4-openssl-dev libarchive-dev libssl-dev ca-certificates catch2 python3)

if [ "${HEDDLE_SKIP_DEPS:-0}" = 1 ]; then exit 0; fi

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  cat >&2 <<MESSAGE
deps.sh: this is not Debian or Ubuntu, so nothing is installed. Heddle needs, by their Debian names:
  ${packages[*]}
(g++ 12 or later, cmake 3.25 or later; libdnnl-dev is oneDNN and may be left out.)
Install them with your package manager and call again with HEDDLE_SKIP_DEPS=1.
MESSAGE
  exit 1
fi

installed=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qx "installed $package" <<<"$installed" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

# oneDNN is not built for every processor; Heddle's own kernels do without it.
if [ "${missing[*]}" = libdnnl-dev ] && apt-cache show g++ >/dev/null 2>&1 &&
  ! apt-cache show libdnnl-dev >/dev/null 2>&1; then
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "deps.sh: packages are missing and there is no sudo here. As root, run:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1 && return
  cat "$log" >&2
  echo "deps.sh: apt-get $* failed" >&2
  exit 1
}

echo "Installing ${missing[*]}"
apt update
if [[ " ${missing[*]} " == *" libdnnl-dev "* ]] && ! apt-cache show libdnnl-dev >/dev/null 2>&1; then
  echo "No libdnnl-dev for this system: building without oneDNN"
  remaining=()
  for package in "${missing[@]}"; do
    [ "$package" = libdnnl-dev ] || remaining+=("$package")
  done
  missing=("${remaining[@]}")
fi
if [ ${#missing[@]} -gt 0 ]; then
  apt install --no-install-recommends "${missing[@]}"
fi
