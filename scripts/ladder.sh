#!/usr/bin/env bash
# usage: scripts/ladder.sh [--steps N] [--device cuda|cpu] [--rungs "NAME ..."]
#
# Measures the ladder of docs/ladder.md: GPT-124M at 1,024 tokens per row on one GPU, from fp32 without any of this
# project's optimizations up to the presets' settings, one more setting per rung. Each rung is a separate run of N
# steps (8) with the same 491,520 tokens per step: tokens per second, peak memory, the most sequences per micro-batch
# that fit in 40 GB, and the final loss. About ten minutes on one large GPU; without a GPU, or with --device cpu, a
# tiny model runs the rungs that a CPU supports in one minute. --rungs selects rungs by name.
#
# DATA_PATH: shards for all rungs (data/datasets/fineweb10B_gpt2 if it exists, else synthetic:zipf). TEXT: a text file
# or folder for the rungs that tokenize while training (data/quickstart/text if it exists, else the sources of Python's
# library), with TOKENIZER as SentencePiece model (the quickstart's, else a new one is trained). Tables, picture, logs
# and metrics go to $OUT (logs/ladder). Requires an existing build/ (or BUILD_DIR); PYTHON (python3) runs the report.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

steps=8 device="" chosen=""
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --steps | --device | --rungs) [[ -n ${2-} ]] || die "$1 requires a value" ;;&
    --steps) steps=$2 ;;
    --device) device=$2 ;;
    --rungs) chosen=$2 ;;
    *) bad_argument "$1" ;;
  esac
  shift 2
done
[[ $steps =~ ^[0-9]+$ && $steps -ge 6 ]] || die "--steps $steps: expected at least 6, of which the first 4 settle"
if [[ -z $device ]]; then
  device=cpu
  if have_gpu; then device=cuda; fi
fi
case $device in
  cuda) need_gpu_and_build ;;
  cpu) [[ -x $build/train_gpt ]] || die "no $build/train_gpt: run scripts/build.sh first" ;;
  *) die "--device $device: expected cuda or cpu" ;;
esac

# The rungs, one per line: kind|name|description|settings|published tokens per second|published sequences. Kind +
# keeps its settings for the following rungs; kind = is measured in addition, with the settings of the rungs before
# it. The published figures are for an A100 with 40 GB and other code (docs/ladder.md).
rungs() {
  if [[ $device == cuda ]]; then cat <<'END'; else cat <<'TINY'; fi
+|fp32|fp32, host synchronisation|COMPUTE_DTYPE=fp32 TRAINING_TIMING_BREAKDOWN=1 FUSED=0 GRAPHS=0 ATTENTION=math PAD_VOCAB=0 TIE_EMBEDDINGS=0 TRAIN_PREFETCH=0 TRAIN_COPY_STREAM=0|16950|28
+|tf32|TF32|COMPUTE_DTYPE=tf32|40900|28
+|no_sync|no host synchronisation|TRAINING_TIMING_BREAKDOWN=0|41000|28
=|fp16|fp16, loss scaling|COMPUTE_DTYPE=fp16|43700|32
+|bf16|bf16|COMPUTE_DTYPE=bf16||
+|kernels|own kernels|FUSED=1|112200|48
+|flash|flash attention|ATTENTION=flash|132200|64
+|cudnn|cuDNN attention|ATTENTION=cudnn||
+|padded|vocabulary padded|PAD_VOCAB=auto||
=|vocab_50304|vocabulary of 50,304|PAD_VOCAB=0 VOCAB_SIZE=50304|147500|64
+|tied|tied embeddings|TIE_EMBEDDINGS=1|149000|64
+|graphs|CUDA graphs|GRAPHS=1||
+|prefetch|prefetch, copy stream|TRAIN_PREFETCH=1 TRAIN_COPY_STREAM=1||
+|workers|four loader workers|TRAIN_PREFETCH_WORKERS=4 TRAIN_PREFETCH_QUEUE=4|147500|64
END
+|fp32|fp32|COMPUTE_DTYPE=fp32 PAD_VOCAB=0 TIE_EMBEDDINGS=0 TRAIN_PREFETCH=0||
+|padded|vocabulary padded|PAD_VOCAB=auto||
=|vocab_512|vocabulary of 512|PAD_VOCAB=0 VOCAB_SIZE=512||
+|tied|tied embeddings|TIE_EMBEDDINGS=1||
+|prefetch|prefetch|TRAIN_PREFETCH=1||
+|workers|four loader workers|TRAIN_PREFETCH_WORKERS=4 TRAIN_PREFETCH_QUEUE=4||
TINY
}
# These use the text's own vocabulary, so the head is smaller: compare them only with each other. The strided order
# would wait for the end of the text.
text_rungs() {
  echo "=|text|text, tokenised meanwhile|DATA_PATH=$work/text.txt TOKENIZER_PATH=$work/tokenizer.model VOCAB_SIZE=$1 LOADER_ORDER=stream||"
  echo "=|shards|the same text as shards|DATA_PATH=$work/shards VOCAB_SIZE=$1 LOADER_ORDER=stream||"
}

make_folders # in $work: text, its shards and discarded weights
runs=$out/runs
mkdir -p "$runs"
rm -f "$runs"/* "$out"/ladder.*
report() { "$python" tests/bench/ladder_report.py "$@"; }

# A tenth of the preset's learning rates: at full rates, differences between number formats grow within the few
# steps of a run.
base=(EMBED_LR=0.03 TIED_EMBED_LR=0.005 HEAD_LR=0.0002 MATRIX_LR=0.002 SCALAR_LR=0.002 TOKENIZER_PATH= DEVICE="$device")
if [[ $device == cuda ]]; then
  shards=data/datasets/fineweb10B_gpt2
  [[ -d $shards ]] || shards=synthetic:zipf
  # 60 sequences per micro-batch, eight micro-batches per step: 60 has many divisors, each a size that may fit.
  base+=(DATA_PATH="${DATA_PATH:-$shards}" VOCAB_SIZE=50257 TRAIN_SEQ_LEN=1024 TRAIN_BATCH_TOKENS=491520
    VAL_BATCH_SIZE=122880 VAL_TOKENS=122880 MEMORY_LIMIT_GB=40 GRAD_ACCUM_STEPS=auto)
else
  base+=(DATA_PATH="${DATA_PATH:-synthetic:zipf}" VOCAB_SIZE=500 TRAIN_SEQ_LEN=128 TRAIN_BATCH_TOKENS=2048
    VAL_BATCH_SIZE=2048 VAL_TOKENS=2048 GRAD_ACCUM_STEPS=2 NUM_LAYERS=2 MODEL_DIM=64 NUM_HEADS=2 NUM_KV_HEADS=2)
fi

for name in $chosen; do
  grep -q "^[+=]|$name|" < <(rungs; text_rungs 0) || die "no rung '$name': expected one of the names in $0"
done
wanted() { [[ -z $chosen || " $chosen " == *" $1 "* ]]; }

# Writes the text as one file and its tokenizer; prints the reason and returns false if there is none.
prepare_text() {
  local source=${TEXT:-data/quickstart/text} model=${TOKENIZER:-data/quickstart/tokenizer.model} only=()
  if [[ -z ${TEXT-} && ! -d $source ]]; then
    source=$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
    only=(-name '*.py' ! -path '*/test*' ! -path '*-packages/*')
  fi
  find "$source" -type f "${only[@]}" -print0 | LC_ALL=C sort -z | xargs -0 -r cat |
    iconv -c -f utf-8 -t utf-8 >"$work/text.txt"
  [[ -s $work/text.txt ]] || { say "left out: text, shards: no text in $source" && return 1; }
  if [[ -f $model ]]; then
    cp "$model" "$work/tokenizer.model"
  else
    [[ -z ${TOKENIZER-} ]] || die "no tokenizer $model"
    command -v spm_train >/dev/null || { say "left out: text, shards: no $model, and no spm_train" && return 1; }
    spm_train --input="$work/text.txt" --model_prefix="$work/tokenizer" --model_type=bpe --vocab_size=1024 \
      --byte_fallback=true --normalization_rule_name=identity --remove_extra_whitespaces=false \
      --input_sentence_size=100000 --num_threads="$(nproc)" --minloglevel=2
  fi
  "$build/make_shards" --tokenizer "$work/tokenizer.model" --out "$work/shards" --document-separator blank-line \
    "$work/text.txt"
}

below=() # settings of the previous rungs
failed=0
# climb: runs the rungs that standard input lists.
climb() {
  local line kind name settings
  while IFS= read -r line; do
    IFS='|' read -r kind name _ settings _ <<<"$line"
    read -ra settings <<<"$settings"
    if [[ $kind == + ]]; then below+=("${settings[@]}"); fi
    wanted "$name" || continue
    echo "$line" >>"$runs/rungs.txt"
    env "${base[@]}" "${below[@]}" "${settings[@]}" timeout -k 10 150 "$build/train_gpt" \
      --config configs/speedrun_124m.env --output-dir "$work/run" --run-id "$name" "${train_only[@]}" \
      --iterations "$steps" >"$runs/$name.log" 2>&1 </dev/null || {
      say "FAIL $name (exit $?)"
      tail -n 3 "$runs/$name.log"
      failed=1
    }
    mv "$work/run/metrics.jsonl" "$runs/$name.jsonl" 2>/dev/null
    rm -rf "${work:?}/run"
    printf '%4d s  %s\n' "$SECONDS" "$(report row "$runs/$name.jsonl")"
  done
}

# A build ignores variables that it does not know as settings.
help=$("$build/train_gpt" --help all)
for setting in $(rungs | grep -o '[A-Z][A-Z0-9_]*=' | tr -d =) "${base[@]%%=*}"; do
  flag=${setting,,}
  [[ $help == *"--${flag//_/-} "* ]] || echo "this build has no $setting"
done | sort -u

climb < <(rungs)
if { wanted text || wanted shards; } && prepare_text; then
  climb < <(text_rungs "$(report pieces "$work/tokenizer.model")")
fi

machine="CPU, $(nproc) cores"
if [[ $device == cuda ]]; then
  machine=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1 | sed 's/, /, driver /')
fi
report table "$out" "$machine, $(date -u +%F)"
say "$SECONDS s; table, picture and figures in $out/ladder.{md,svg,csv,json}, logs in $runs"
exit "$failed"
