#!/usr/bin/env bash
# usage: scripts/score_stages.sh [--seconds N] [--stop-after N] [-- TRAIN_GPT_FLAG ...]
#
# Measures what each stage of the last record gains: trains configs/record_1061.env for N seconds (240) on DATA_PATH
# (documents with case operations) with TOKENIZER_PATH, then scores the artifact, and adapts it with phased test-time
# training, as separate commands. Test-time training is stopped after N seconds (20) and started again. Prints the
# bits per byte of the trained, averaged, quantized and adapted weights and the seconds of each stage; logs and the
# table go to $OUT (logs/score_stages). COMPRESSOR: pergroup if lrzip is installed, else brotli.
#
# Without a GPU a tiny model trains for 12 steps instead: this only tests the script.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

seconds=240 stop_after=20
take_flags "$@"
set -- "${own[@]}"
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --seconds | --stop-after) [[ ${2-} =~ ^[1-9][0-9]*$ ]] || die "$1 requires a whole number" ;;&
    --seconds) seconds=$2 ;;
    --stop-after) stop_after=$2 ;;
    *) bad_argument "$1" ;;
  esac
  shift 2
done
export MAX_WALLCLOCK_SECONDS=$seconds VAL_LOSS_EVERY=0 PHASED_TTT_ENABLED=0
if ! command -v lrzip >/dev/null; then export COMPRESSOR=${COMPRESSOR:-brotli}; fi
if have_gpu; then
  need_gpu_and_build
  export DEVICE=cuda COMPUTE_DTYPE=bf16
else
  [[ -x $build/train_gpt ]] || die "no $build/train_gpt: run scripts/build.sh first"
  say "no GPU: a tiny model on the CPU, whose numbers mean nothing"
  export DEVICE=cpu MODEL_DIM=32 NUM_HEADS=4 NUM_KV_HEADS=2 VOCAB_SIZE=512 ROPE_DIMS=4 MLP_MULT=2 TRAIN_SEQ_LEN=64 \
    EVAL_SEQ_LEN=64 TRAIN_BATCH_TOKENS=1024 GRAD_ACCUM_STEPS=2 VAL_BATCH_SIZE=1024 VAL_TOKENS=1024 WARMUP_STEPS=1 ITERATIONS=12 COMPRESSOR=lzma \
    GPTQ_CALIBRATION_BATCHES=2 TTT_EVAL_SEQ_LEN=64 TTT_CHUNK_SIZE=32 TTT_BATCH_SIZE=2 TTT_LORA_RANK=4 \
    PHASED_TTT_PREFIX_DOCS=4 GLOBAL_TTT_CHUNK_TOKENS=256 GLOBAL_TTT_BATCH_SEQS=2
fi
make_folders
rm -f "$out"/*.log

# stage NAME LIMIT FLAG ...: appends its output to $out/NAME.log.
stage() {
  local name=$1 limit=$2 code began=$SECONDS
  shift 2
  # After a signal, test-time training finishes its batch, which may be long.
  timeout -k 150 "$limit" "$build/train_gpt" "$@" "${flags[@]}" >>"$out/$name.log" 2>&1 </dev/null
  code=$?
  echo "stage_seconds:$((SECONDS - began))" >>"$out/$name.log"
  printf '%4d s  %s (exit code %d)\n' "$SECONDS" "$name" "$code"
  return "$code"
}
failed() {
  tail -n 5 "$out/$1.log"
  die "$1 failed"
}

stage train $((seconds + 300)) --config configs/record_1061.env --output-dir "$work/run" --run-id stages || failed train
artifact=$work/run/final_model.int6.ptz
stage quantised 300 eval --init-from "$artifact" || failed quantised
export PHASED_TTT_ENABLED=1
stage adapted "$stop_after" eval --init-from "$artifact"
case $? in
  0) ;;
  # 124: timeout's exit status when it has sent a signal.
  124) stage adapted 900 eval --init-from "$artifact" || tail -n 5 "$out/adapted.log" ;;
  *) tail -n 5 "$out/adapted.log" ;;
esac
"$python" tests/bench/stages_report.py "$out" | tee "$out/table.txt"
exit "${PIPESTATUS[0]}"
