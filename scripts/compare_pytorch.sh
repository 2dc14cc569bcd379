#!/usr/bin/env bash
# scripts/compare_pytorch.sh [FLAGS]: Heddle's training step and loader beside PyTorch's, in turn.
# --help lists the flags. The Python is $HEDDLE_PYTHON where that is set (it needs torch,
# torchvision and numpy), else a virtual environment in build/pytorch, made at the first call.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${HEDDLE_PYTHON:-}
if [ -z "$python" ]; then
  python=$root/build/pytorch/bin/python
  if ! "$python" -c 'import torch, torchvision, numpy' 2>/dev/null; then
    python3 -m venv "$root/build/pytorch"
    "$python" -m pip install --quiet torch torchvision numpy
  fi
fi
"$root/scripts/build.sh" bench_step bench_loader
exec "$python" "$root/scripts/compare_pytorch.py" --programs "$root/build/release/bin" "$@"
