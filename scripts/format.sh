#!/usr/bin/env bash
# scripts/format.sh [--check] [FILE...]: formats the C++ sources (all of them by default), or only says
# which differ. As a hook: ln -s ../../scripts/format.sh .git/hooks/pre-commit (it then checks what
# is about to be committed).
set -euo pipefail
version=14 # other versions break lines differently
here=$(readlink -f "${BASH_SOURCE[0]}")
cd "$(dirname "$here")/.."

tool=$(command -v clang-format-$version || command -v clang-format || true)
if [ -z "$tool" ] || ! "$tool" --version | grep -q "version $version\."; then
  echo "SKIPPED: clang-format $version is not installed, so formatting is not checked"
  exit 0
fi

mode=(-i)
select=(git ls-files --cached --others --exclude-standard)
if [ "$(basename "$0")" = pre-commit ]; then
  mode=(--dry-run --Werror)
  select=(git diff --cached --name-only --diff-filter=ACMR)
elif [ "${1:-}" = --check ]; then
  mode=(--dry-run --Werror)
  shift
fi
if [ $# -gt 0 ]; then
  printf '%s\0' "$@" | xargs -0 "$tool" "${mode[@]}"
else
  "${select[@]}" -z -- '*.h' '*.cpp' '*.cu' '*.cuh' | xargs -0 -r "$tool" "${mode[@]}"
fi
