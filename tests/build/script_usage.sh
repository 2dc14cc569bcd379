#!/usr/bin/env bash
# tests/build/script_usage.sh: the scripts refuse wrong arguments with exit code 2 and one line, before
# any work.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export HEDDLE_SKIP_DEPS=1
failures=0

check() { # SAID COMMAND...
  local said=$1 output status
  shift
  output=$(timeout 20 "$@" 2>&1)
  status=$?
  if [ $status -ne 2 ] || [ "$(wc -l <<<"$output")" -ne 1 ] || [[ $output != *"$said"* ]]; then
    echo "$*: exit code $status, expected 2 and a line with '$said':"
    echo "$output"
    failures=$((failures + 1))
  fi
}

check '"conv2d" is no flag' scripts/test.sh conv2d
check 'unknown flag --bogus' scripts/test.sh -R conv2d --bogus
check '"pool" is no flag' scripts/test.sh -R conv2d pool
check 'unknown argument stray' scripts/deps.sh stray
check 'unknown argument stray' scripts/gpu_check.sh stray
check 'unknown argument --wirte' python3 scripts/check_source.py --wirte
check 'usage: scripts/check_bare.sh' scripts/check_bare.sh sid
check 'relase' env STAGES=relase .ci/run
exit $((failures > 0))
