#!/usr/bin/env bash
# scripts/test.sh [FLAGS OF ctest]: installs what is missing, builds everything, and runs the tests:
# without flags all but the slow ones, with flags those that they choose. Labels: cpu, sim, gpu, slow.
# For example: scripts/test.sh -L slow, scripts/test.sh -R conv2d
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

refuse() {
  echo "test.sh: $1; usage: scripts/test.sh [FLAGS OF ctest], for example: scripts/test.sh -R conv2d" >&2
  exit 2
}

# ctest itself passes over what it does not know, and would run all tests.
check_flags() {
  local known arg value_may_follow=
  known=$(ctest --help)
  for arg in "$@"; do
    if [ "$arg" = --help ]; then exec ctest --help; fi
    if [[ $arg =~ ^-j[0-9]+$ ]]; then
      value_may_follow=
    elif [[ $arg == -* ]]; then
      [[ ${arg%%=*} =~ ^-[-A-Za-z0-9]+$ ]] && grep -qE -- "(^|[ ,])${arg%%=*}([][ ,=]|$)" <<<"$known" ||
        refuse "unknown flag $arg"
      value_may_follow=yes
    elif [ -n "$value_may_follow" ]; then
      value_may_follow=
    else
      refuse "\"$arg\" is no flag"
    fi
  done
}

"$root/scripts/deps.sh" # has ctest
check_flags "$@"
"$root/scripts/build.sh"
if [ $# -eq 0 ]; then
  echo "Running all tests but the slow ones: scripts/test.sh -L slow runs those"
  set -- -LE slow
fi
exec ctest --test-dir "$root/build/release" --output-on-failure -j 2 "$@"
