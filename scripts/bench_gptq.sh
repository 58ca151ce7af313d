#!/usr/bin/env bash
# usage: scripts/bench_gptq.sh [--preset NAME] [--rounds N] [--compressors "NAME ..."]
#
# Measures ARTIFACT=gptq of configs/record_1061.env, or another preset, on one GPU, with synthetic documents and a model
# trained for two steps. For each compressor (lzma, brotli, pergroup; the last only if lrzip is installed) and round:
# the seconds for the Hessians of GPTQ_CALIBRATION_BATCHES, for GPTQ with LQER, for packing and for reading, and the
# bytes. The first round includes the start-up cost of CUDA's libraries. Then runs tests/bench/quantize_bench for each
# kind of matrix. Logs and the table, which is printed last, go to $OUT (logs/bench_gptq).
#
# Without a GPU a tiny model runs instead: this only tests the script, its times mean nothing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

preset=record_1061 rounds=2 compressors=(lzma brotli)
! command -v lrzip >/dev/null || compressors+=(pergroup)
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --preset | --rounds | --compressors) [[ -n ${2-} ]] || die "$1 requires a value" ;;&
    --preset) preset=$2 ;;
    --rounds) rounds=$2 ;;
    --compressors) read -ra compressors <<<"$2" ;;
    *) bad_argument "$1" ;;
  esac
  shift 2
done
require_presets "$preset"
for compressor in "${compressors[@]}"; do
  [[ $compressor =~ ^(lzma|brotli|pergroup)$ ]] || die "no compressor '$compressor': expected lzma, brotli or pergroup"
done
export DATA_PATH=synthetic:documents TOKENIZER_PATH='' VAL_BATCH_SIZE=65536 VAL_TOKENS=65536
if have_gpu; then
  need_gpu_and_build
  export DEVICE=cuda
else
  [[ -x $build/train_gpt ]] || die "no $build/train_gpt: run scripts/build.sh first"
  say "no GPU: a small model on the CPU, whose times mean nothing"
  export DEVICE=cpu MODEL_DIM=144 NUM_HEADS=4 NUM_KV_HEADS=2 VOCAB_SIZE=512 ROPE_DIMS=4 TRAIN_SEQ_LEN=64 \
    EVAL_SEQ_LEN=64 TRAIN_BATCH_TOKENS=1024 VAL_BATCH_SIZE=1024 VAL_TOKENS=1024
fi
make_folders # in $work: the model and its artifacts
rm -f "$out"/*.log
failed=0

seconds() { awk -v ms="${1:-0}" 'BEGIN { printf "%.2f", ms / 1000 }'; } # seconds MS

# quantised NAME COMPRESSOR: writes an artifact and reads it back.
quantised() {
  local made=$work/model/$1.ptz began
  "$build/train_gpt" quantize --init-from "$work/model" --out "$made" --calibrate "$DATA_PATH" --compressor "$2" \
    >"$out/$1.log" 2>&1 </dev/null || return 1
  began=$(date +%s%N)
  "$build/train_gpt" inspect "$made" >/dev/null || return 1
  printf 'read_ms:%d\n' $((($(date +%s%N) - began) / 1000000)) >>"$out/$1.log"
}

field() { grep -oP "$2" "$out/$1.log" | head -n 1; } # field NAME PATTERN

"$build/train_gpt" --config "configs/$preset.env" --output-dir "$work/model" --run-id model "${train_only[@]}" \
  --iterations 2 >"$out/train.log" 2>&1 </dev/null || {
  tail -n 5 "$out/train.log"
  die "no model"
}
"$build/quantize_bench" 2>&1 | tee "$out/quantize_bench.log" || failed=1
table=$'compressor round  Hessians s  GPTQ+LQER s  packing s  reading s     bytes\n'
for ((round = 1; round <= rounds; ++round)); do
  for compressor in "${compressors[@]}"; do
    name=${compressor}_$round
    quantised "$name" "$compressor" || {
      say "FAIL $name"
      tail -n 5 "$out/$name.log"
      failed=1
      continue
    }
    table+=$(printf '%-10s %5d %11s %12s %10s %10s %9s\n' "$compressor" "$round" \
      "$(field "$name" 'Hessians in \K[\d.]+')" "$(seconds "$(field "$name" 'quantize:\K\d+')")" \
      "$(seconds "$(field "$name" 'compress:\K\d+')")" "$(seconds "$(field "$name" 'read_ms:\K\d+')")" \
      "$(field "$name" 'Serialized model \S+ \K\d+')")$'\n'
  done
done
printf '%s' "$table" | tee "$out/table.txt"
exit "$failed"
