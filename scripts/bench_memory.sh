#!/usr/bin/env bash
# usage: scripts/bench_memory.sh [--steps N] [--recipe NAME] [--limits "GB ..."]
#
# Measures the cost of limited memory, for configs/record.env and configs/speedrun_124m.env (or the named recipe) on one
# GPU, in bf16 with synthetic tokens: without a limit, with each ACTIVATION_RECOMPUTE, and with GRAD_ACCUM_STEPS=auto
# under MEMORY_LIMIT_GB=8, 12, 16 and 24 (--limits). Prints the sequences per forward pass, the peak memory and tokens
# per second of each, from N steps (8). About four minutes on a large GPU. Logs and the table go to $OUT
# (logs/bench_memory).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

steps=8 recipes=(record speedrun_124m) limits=(8 12 16 24)
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --steps | --recipe | --limits) [[ -n ${2-} ]] || die "$1 requires a value" ;;&
    --steps) steps=$2 ;;
    --recipe) recipes=("$2") ;;
    --limits) read -ra limits <<<"$2" ;;
    *) bad_argument "$1" ;;
  esac
  shift 2
done
need_gpu_and_build
make_folders
rm -f "$out"/*.jsonl "$out"/*.log
failed=0

# train RECIPE NAME FLAG ...
train() {
  local recipe=$1 name=$1.$2
  shift 2
  measured_run "$name" --config "configs/$recipe.env" --iterations "$steps" --val-tokens 524288 \
    --val-batch-size 524288 "$@" || failed=1
}

for recipe in "${recipes[@]}"; do
  train "$recipe" all
  train "$recipe" light --activation-recompute light
  train "$recipe" block --activation-recompute block
  for limit in "${limits[@]}"; do
    train "$recipe" "limit_$limit" --memory-limit-gb "$limit" --grad-accum-steps auto
  done
done
"$python" tests/bench/memory_report.py "$out" | tee "$out/table.txt"
exit "$failed"
