#!/usr/bin/env bash
# scripts/compare_pytorch.sh [FLAGS]: Heddle's training step and loader beside PyTorch's, in turn.
# --help lists the flags. The Python is $HEDDLE_PYTHON where that is set (it needs torch,
# torchvision and numpy), else a virtual environment in build/pytorch, made at the first call.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
compare=$root/scripts/compare_pytorch.py

# Wrong flags and --help are answered before anything is installed or built.
for flag in "$@"; do
  case $flag in -h | --help) exec python3 "$compare" --programs - --help ;; esac
done
python3 "$compare" --programs - --check-flags "$@"

python=${HEDDLE_PYTHON:-}
if [ -z "$python" ]; then
  python=$root/build/pytorch/bin/python
  if ! "$python" -c 'import torch, torchvision, numpy' 2>/dev/null; then
    python3 -m venv "$root/build/pytorch"
    "$python" -m pip install --quiet torch torchvision numpy
  fi
fi
"$root/scripts/build.sh" bench_step bench_loader
exec "$python" "$compare" --programs "$root/build/release/bin" "$@"
