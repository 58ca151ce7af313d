#!/usr/bin/env bash
# usage: scripts/bench_loss.sh [--steps N] [--preset NAME]
#
# Do fast kernels and half precision train as the reference does? The preset's network at 98,304 tokens
# a step, 1,000 steps of the same tokens from the same weights: in fp32 without own kernels or CUDA
# graphs, in bf16 without and with them, and in bf16 from other weights (the noise to compare with). On
# all GPUs of this host; about six minutes on four H200s, twenty on one. Reads DATA_PATH
# (data/quickstart/shards by default). The table and the curves go to $OUT (logs/bench_loss).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

steps=1000 preset=record
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --steps | --preset) [[ $# -ge 2 ]] || bad_argument "$1" ;;&
    --steps) steps=$2 ;;
    --preset) preset=$2 ;;
    *) bad_argument "$1" ;;
  esac
  shift 2
done
need_gpu_and_build
gpus=$(nvidia-smi -L | wc -l)
out=${OUT:-logs/bench_loss}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# train NAME FLAG ...
train() {
  local name=$1 began=$SECONDS
  shift
  "${mpi[@]}" -np "$gpus" build/train_gpt --config "configs/$preset.env" --output-dir "$work/$name" --run-id "$name" \
    --data-path "${DATA_PATH:-data/quickstart/shards}" --tokenizer-path= "${train_only[@]}" \
    --train-log-every 100 --train-batch-tokens 98304 --iterations "$steps" --warmdown-iters $((steps / 3)) \
    --muon-momentum-warmup-steps $((steps / 4)) --val-batch-size 65536 "$@" >"$work/$name.log" 2>&1 ||
    tail -n 5 "$work/$name.log"
  cp "$work/$name/metrics.jsonl" "$out/$name.jsonl"
  rm -rf "${work:?}/$name"
  say "$name: $((SECONDS - began)) s, $(grep -o '^step:.* train_loss:[0-9.]*' "$work/$name.log" | tail -n 1)"
}

train bf16_fused --compute-dtype bf16
train bf16_reference --compute-dtype bf16 --fused 0 --graphs 0
train bf16_other_seed --compute-dtype bf16 --seed 1338
train fp32_reference --compute-dtype fp32 --fused 0 --graphs 0
"$python" tests/bench/loss_report.py "$out"/{fp32_reference,bf16_reference,bf16_fused,bf16_other_seed}.jsonl \
  --picture "$out/losses.svg" | tee "$out/table.txt"
