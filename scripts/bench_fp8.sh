#!/usr/bin/env bash
# usage: scripts/bench_fp8.sh [--recipe NAME] [--rounds N] [--steps N]
#
# Measures what each part of FP8 gains, for configs/record.env and configs/gpt124m.env or the named recipe, on one GPU
# with synthetic tokens. Alternates between bf16, FP8=mlp, qkv, out and head alone, and all of them, and prints the
# median step times and their ratio to bf16; two rounds of 14 steps by default. Logs and the table go to $OUT
# (logs/bench_fp8). For the loss: scripts/bench_loss.sh --dtypes "bf16 fp8 bf16:1338 fp8:1338".
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

rounds=2 steps=14 recipes=(record gpt124m)
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --recipe | --rounds | --steps) [[ $# -ge 2 ]] || die "$1 requires a value" ;;&
    --recipe) recipes=("$2") ;;
    --rounds) rounds=$2 ;;
    --steps) steps=$2 ;;
    *) bad_argument "$1" ;;
  esac
  shift 2
done
require_presets "${recipes[@]}"
need_gpu_and_build
make_folders
rm -f "$out"/*.jsonl "$out"/*.log
failed=0

for ((round = 1; round <= rounds; ++round)); do
  for recipe in "${recipes[@]}"; do
    for parts in 0 mlp qkv out head 1; do
      measured_run "$recipe.fp8_$parts.$round" --config "configs/$recipe.env" --iterations "$steps" --fp8 "$parts" \
        --val-batch-size 65536 --val-tokens 65536 || failed=1
    done
  done
done
"$python" tests/bench/shapes_report.py "$out" | tee "$out/table.txt"
exit "$failed"
