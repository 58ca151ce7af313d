#!/usr/bin/env bash
# usage: scripts/bench_ttt.sh [--rounds N] [--documents N] [--every N] [-- TRAIN_GPT_FLAG ...]
#
# Measures phased test-time training of configs/record_1061.env on one GPU, in bf16, with random weights: scores every
# 25th batch of 50,000 synthetic documents (about 2.0 million tokens), and times base training separately
# (build/phased_ttt_bench, which is built with the tests). Then lists the kernels of three of these batches by time.
# Logs, trace and table go to $OUT (logs/bench_ttt).
#
# Without a GPU a tiny model runs instead: this only tests the script, its times mean nothing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

rounds=1 documents='' every=''
take_flags "$@"
set -- "${own[@]}"
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --rounds | --documents | --every) [[ ${2-} =~ ^[1-9][0-9]*$ ]] || die "$1 requires a whole number" ;;&
    --rounds) rounds=$2 ;;
    --documents) documents=$2 ;;
    --every) every=$2 ;;
    *) bad_argument "$1" ;;
  esac
  shift 2
done
export DATA_PATH=synthetic:documents TOKENIZER_PATH=''
if have_gpu; then
  need_gpu_and_build
  export DEVICE=cuda COMPUTE_DTYPE=bf16
  documents=${documents:-50000} every=${every:-25}
else
  [[ -x $build/train_gpt ]] || die "no $build/train_gpt: run scripts/build.sh first"
  say "no GPU: a tiny model on the CPU, whose times mean nothing"
  export DEVICE=cpu MODEL_DIM=32 NUM_HEADS=4 NUM_KV_HEADS=2 VOCAB_SIZE=512 ROPE_DIMS=4 MLP_MULT=2 TRAIN_SEQ_LEN=64 \
    EVAL_SEQ_LEN=64 TRAIN_BATCH_TOKENS=1024 VAL_BATCH_SIZE=1024 TTT_EVAL_SEQ_LEN=512 TTT_CHUNK_SIZE=256 \
    TTT_BATCH_SIZE=2 TTT_LORA_RANK=4 GLOBAL_TTT_CHUNK_TOKENS=256 GLOBAL_TTT_BATCH_SEQS=2
  documents=${documents:-12} every=${every:-2}
fi
make_folders
trace=$work/trace.json
for ((round = 1; round <= rounds; ++round)); do
  "$build/phased_ttt_bench" "$documents" "$every" "$trace" --config configs/record_1061.env "${flags[@]}" \
    >"$out/round_$round.log" 2>&1 </dev/null || {
    tail -n 5 "$out/round_$round.log"
    die "round $round failed"
  }
  trace='' # only in the first round
done
"$python" tests/bench/kernel_table.py "$work/trace.json" 30 | tee "$out/kernels.txt"
grep -hE '^(scored|base training)' "$out"/round_*.log | tee "$out/table.txt"
