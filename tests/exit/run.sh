#!/usr/bin/env bash
# run.sh PROGRAM: the program's exit status is as asked in each way of ending, nothing is said about the
# driver, and an exception's text is kept.
set -uo pipefail
program=$1
said=$(mktemp)
trap 'rm -f "$said"' EXIT

"$program" return >"$said" 2>&1
status=$?
if [ $status -eq 77 ]; then cat "$said"; exit 77; fi

check() { # WAY EXPECTED
  "$program" "$1" >"$said" 2>&1
  local status=$?
  if [ "$2" = zero ] && { [ $status -ne 0 ] || [ -s "$said" ]; } ||
    [ "$2" = text ] && { [ $status -eq 0 ] || ! grep -q "the original text" "$said"; } ||
    grep -qiE "heddle:|cuda|driver" "$said"; then
    echo "$1: status $status, said:"
    cat "$said"
    exit 1
  fi
}
ulimit -c 0
check return zero
check exit zero
check throw text
