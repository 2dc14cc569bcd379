#!/usr/bin/env bash
# scripts/gpu_check.sh [--deps DIR]: on a machine with an NVIDIA card, nvcc and cmake, and nothing else
# (no apt, no network): builds Heddle with CUDA for that card, runs the gpu tests, a short
# bench_kernels and a training run, and prints a short summary last. DIR is a folder that
# `scripts/deps.sh --bundle DIR` made elsewhere; without it the libraries are looked for in the system.
# Takes under 8 minutes on 16 cores. Logs and figures go to $OUT, else build/gpu/report.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

deps=
while [ $# -gt 0 ]; do
  case $1 in
    --deps)
      deps=$(cd "${2:-}" 2>/dev/null && pwd) || { echo "gpu_check.sh: no folder ${2:-}" >&2; exit 2; }
      shift 2 ;;
    *)
      echo "gpu_check.sh: unknown argument $1; usage: gpu_check.sh [--deps DIR]" >&2
      exit 2 ;;
  esac
done

if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then PATH=$PATH:/usr/local/cuda/bin; fi
for tool in nvcc cmake g++; do
  command -v $tool >/dev/null || { echo "gpu_check.sh: needs $tool on PATH" >&2; exit 1; }
done
if ! card=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null | head -n 1) ||
  [ -z "$card" ]; then
  echo "gpu_check.sh: nvidia-smi finds no card here: nothing was checked" >&2
  exit 1
fi

report=${OUT:-$root/build/gpu/report}
mkdir -p "$report"
summary=("card: $card" "nvcc: $(nvcc --version | sed -n 's/.*release //p')" "date: $(date +%F)")
failed=0

step() { # NAME COMMAND...: its output goes to NAME.log
  local name=$1 begin=$SECONDS
  shift
  if "$@" >"$report/$name.log" 2>&1; then
    summary+=("$(printf '%-10s good    %4d s' "$name" $((SECONDS - begin)))")
    return 0
  fi
  summary+=("$(printf '%-10s FAILED  %4d s, see %s.log' "$name" $((SECONDS - begin)) "$name")")
  failed=$((failed + 1))
  echo "--- $name failed; the end of its output:"
  tail -n 40 "$report/$name.log"
  return 1
}

finish() {
  echo
  printf '%s\n' "${summary[@]}"
  echo "$([ "$failed" -eq 0 ] && echo "all good" || echo "$failed steps failed"), $SECONDS s in all"
  [ "$failed" -eq 0 ]
  exit
}

flags=(-S . -B build/gpu -DCMAKE_BUILD_TYPE=Release -DHEDDLE_CUDA=ON -DHEDDLE_SIM=OFF -DHEDDLE_ONEDNN=OFF
  -DHEDDLE_BUILD_TESTS=ON -DHEDDLE_BUILD_APPS=ON)
if [ -n "$deps" ]; then
  flags+=("-DCMAKE_PREFIX_PATH=$deps/usr")
  for config in fmt-config:fmt Catch2Config:Catch2 CLI11Config:CLI11 nlohmann_jsonConfig:nlohmann_json; do
    found=$(find "$deps" -name "${config%%:*}.cmake" -print -quit)
    if [ -n "$found" ]; then flags+=("-D${config##*:}_DIR=$(dirname "$found")"); fi
  done
fi
if command -v ninja >/dev/null; then flags+=(-G Ninja); fi
export HEDDLE_REQUIRE_CUDA=1 # a test that would be skipped for want of a card fails

step configure cmake "${flags[@]}" || finish
step build cmake --build build/gpu --parallel "$(nproc)" || finish
step tests ctest --test-dir build/gpu --output-on-failure -L gpu --no-tests=error -j 4
summary+=("           $(grep -E 'tests passed' "$report/tests.log" | tail -n 1)")
step bench build/gpu/bin/bench_kernels --device cuda:0 --rounds 5 --json "$report/bench.json" \
  --roofline "$report/roofline.svg" &&
  summary+=("$(sed -n 's/^median/           median/p' "$report/bench.log")")
step train build/gpu/bin/train_cifar --devices cuda:0 --epochs 1 --limit 20000 --out "$report/run" &&
  summary+=("           $(grep -E '^ *1 ' "$report/train.log" | tail -n 1)")
finish
