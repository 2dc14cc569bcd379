#!/bin/sh
# usage: run.sh PROGRAM; how a program ends that owns device resources statically, in each schedule.
program=$1
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
failed=0

# expect ARGUMENT STATUS OUTPUT ERRORS: what is printed; ERRORS is part of it, or empty for nothing.
expect() {
  output=$("$program" "$1" 2>"$errors")
  status=$?
  good=1
  [ "$status" -eq "$2" ] && [ "$output" = "$3" ] || good=0
  if [ -n "$4" ]; then
    grep -q "$4" "$errors" || good=0
  elif [ -s "$errors" ]; then
    good=0
  fi
  [ $good -eq 1 ] && return
  echo "$CUDASIM_SCHEDULE, $1: status $status (expected $2), output:"
  echo "$output"
  cat "$errors"
  failed=1
}

ok="cudaSuccess cudaSuccess cudaSuccess cudaSuccess"
gone="cudaErrorCudartUnloading"
both="made after: $ok
made before: $gone $gone $gone $gone"
for schedule in eager latest random:5; do
  export CUDASIM_SCHEDULE=$schedule
  expect return 0 "$both" ""
  expect exit 3 "$both" ""
  expect throw 134 "" "the original text"
done
exit $failed
