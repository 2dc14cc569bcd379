#!/usr/bin/env bash
# tests/fuzz/run.sh [SECONDS]: runs each libFuzzer target of build/fuzz (preset fuzz) for that long,
# 20 by default, beginning with tests/fuzz/corpus/TARGET where there is one. What it finds anew stays
# in build/fuzz/corpus; an input that breaks a target stays in build/fuzz.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build/fuzz
seconds=${1:-20}
for target in "$build"/fuzz/*_fuzz; do
  name=$(basename "$target")
  seeds=()
  if [ -d "$root/tests/fuzz/corpus/$name" ]; then seeds=("$root/tests/fuzz/corpus/$name"); fi
  mkdir -p "$build/corpus/$name"
  echo "fuzz: $name for $seconds s"
  if ! "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix="$build/$name-" "$build/corpus/$name" "${seeds[@]}" \
    >"$build/$name.log" 2>&1; then
    cat "$build/$name.log"
    echo "fuzz: $name FAILED"
    exit 1
  fi
  grep -E 'number_of_executed_units|new_units_added' "$build/$name.log"
done
