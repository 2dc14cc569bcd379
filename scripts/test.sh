#!/usr/bin/env bash
# scripts/test.sh [FLAGS OF ctest]: installs what is missing, builds everything, and runs the tests.
# Labels: cpu, slow. For example: scripts/test.sh -LE slow, scripts/test.sh -R conv2d
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/scripts/build.sh"
exec ctest --test-dir "$root/build/release" --output-on-failure -j 2 "$@"
