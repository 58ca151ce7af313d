#!/usr/bin/env bash
# usage: scripts/bench_shapes.sh [--rounds N] [--steps N]
#
# Measures the cost of sizes that are not multiples of what GPUs need: GPT-124M (configs/gpt124m.env) on one GPU, in
# bf16 with synthetic tokens, with a vocabulary, heads and widths that train_gpt pads, each compared with neighbouring
# sizes in alternating runs. Prints the ratio of the median step times, from one round of 14 steps by default. Logs
# and the table go to $OUT (logs/bench_shapes). Without a GPU a tiny model runs instead: this only tests the script,
# its times mean nothing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

rounds=1 steps=14
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --rounds | --steps) [[ $# -ge 2 ]] || die "$1 requires a value" ;;&
    --rounds) rounds=$2 ;;
    --steps) steps=$2 ;;
    *) bad_argument "$1" ;;
  esac
  shift 2
done
machine=(--compute-dtype bf16 --val-batch-size 65536 --val-tokens 65536)
if have_gpu; then
  need_gpu_and_build
else
  [[ -x build/train_gpt ]] || die "no build/train_gpt: run scripts/build.sh first"
  say "no GPU: a tiny model on the CPU, whose times mean nothing"
  machine=(--num-layers 1 --mlp-mult 1 --muon-backend-steps 1 --train-seq-len 16 --train-batch-tokens 128
    --grad-accum-steps 1 --val-batch-size 128 --val-tokens 128)
  export VOCAB_SIZE=512 # unless a flag says otherwise
fi
make_folders
rm -f "$out"/*.jsonl "$out"/*.log
failed=0

# train NAME FLAG ...: the padded size runs first, then its neighbours, whose names are equal up to the dot.
train() {
  local name=$1.$round
  shift
  measured_run "$name" --config configs/gpt124m.env --iterations "$steps" "${machine[@]}" "$@" || failed=1
}
heads() { echo --model-dim $(($1 * $2)) --num-heads "$1" --num-kv-heads "$1"; }

for ((round = 1; round <= rounds; ++round)); do
  train vocab.50257 --vocab-size 50257
  train vocab.50304 --vocab-size 50304
  # shellcheck disable=SC2046
  {
    train heads.12x50 $(heads 12 50) --rope-dims 16
    train heads.12x56 $(heads 12 56) --rope-dims 16
    train rotated.12x50 $(heads 12 50)
    train rotated.12x64 $(heads 12 64)
    train width.770=7x110 $(heads 7 110) --rope-dims 16
    train width.776=4x194 $(heads 4 194) --rope-dims 16
    train width.784=7x112 $(heads 7 112) --rope-dims 16
    train width.768=6x128 $(heads 6 128) --rope-dims 16
  }
done
"$python" tests/bench/shapes_report.py "$out" | tee "$out/table.txt"
exit "$failed"
