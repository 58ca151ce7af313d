#!/usr/bin/env bash
# usage: scripts/bench_loss.sh [--steps N] [--preset NAME] [--data DIR] [--dtypes "fp32 bf16 fp8 fp16:SEED"]
#        [--lr-divisor N] [--batch-tokens N] [--device cuda|cpu] [-- TRAIN_GPT_FLAG ...]
#
# Checks that fast kernels and half precision train as the reference does. The preset's network trains for 1,000 steps
# of 98,304 tokens, with the same tokens and initial weights in every run: fp32 without own kernels or CUDA graphs,
# bf16 without and with them, and bf16 with other initial weights (the noise to compare with). Uses all GPUs of this
# host or CUDA_VISIBLE_DEVICES; takes about six minutes on four H200s, twenty on one.
# With --dtypes: compares these number formats, all else equal, with the first one. fp16:1338 starts from other weights
# (SEED), fp8 is bf16 with FP8=1, and fp8=mlp,out is bf16 with those parts in FP8. Naming a format twice shows the
# difference between two identical runs.
#
# At a preset's learning rates, the losses of two identical runs differ by one or two per cent after some hundred
# steps, because rounding errors grow. --lr-divisor 4 divides all learning rates by 4 and turns QAT off, so that
# smaller differences become visible.
#
# To test depth recurrence from the middle of the run on: --preset record_1061 --steps 300 --dtypes "fp32 bf16" --
# --enable-looping-at 0.5, and with --steps 1000 --dtypes "bf16 fp8 bf16:1338 fp8:1338". In fp32, document attention
# materializes a matrix over the whole row of a micro-batch; -- --grad-accum-steps 48 --val-batch-size 98304 makes it
# 36 times smaller.
#
# --data: folder of shards (DATA_PATH, else data/quickstart/shards). If it has none, they are made from the
# quickstart's text with its documents shuffled, and can be copied to another machine: MORE_TEXT=1
# scripts/quickstart.sh --iterations 0 fetches that text. --device cpu, --batch-tokens and a small preset allow a trial
# without a GPU. Flags after -- go to each run: -- --num-layers 6 makes the network smaller, since fp32 takes twenty
# times as long as bf16. The table, the curves and a folder for each run, for train_gpt report, go to $OUT
# (logs/bench_loss).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

steps=1000 preset=record batch_tokens=98304 lr_divisor=1 dtypes=() device=cuda
data=${DATA_PATH:-data/quickstart/shards}
take_flags "$@"
set -- "${own[@]}"
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --steps | --preset | --data | --dtypes | --lr-divisor | --batch-tokens | --device) [[ -n ${2-} ]] || die "$1 requires a value" ;;&
    --steps) steps=$2 ;;
    --data) data=$2 ;;
    --dtypes) read -ra dtypes <<<"$2" ;;
    --lr-divisor) lr_divisor=$2 ;;
    --batch-tokens) batch_tokens=$2 ;;
    --device) device=$2 ;;
    --preset) preset=$2 ;;
    *) bad_argument "$1" ;;
  esac
  shift 2
done
launch=()
if [[ $device == cpu ]]; then
  [[ -x $build/train_gpt ]] || die "no $build/train_gpt: run scripts/build.sh first"
else
  need_gpu_and_build
  launch=("${mpi[@]}" -np "$(visible_gpus | wc -l)")
fi
require_presets "$preset"
out=${OUT:-logs/bench_loss}
mkdir -p "$out"

rates=()
if [[ $lr_divisor != 1 ]]; then
  # MATRIX_LR=0.02 as --matrix-lr 0.005
  mapfile -t rates < <(awk -F= -v by="$lr_divisor" '/^[A-Z_]*_LR=/ && $1 != "TTT_LR" {
    gsub("_", "-", $1); print "--" tolower($1); print $2 / by }' <("$build/train_gpt" inspect --settings "configs/$preset.env"))
  rates+=(--late-qat-threshold 0)
fi

# One document in fifty is for validation, which this script does not use.
make_data() {
  local documents
  mapfile -t documents < <(find data/quickstart/text data/quickstart/more_text -type f 2>/dev/null | LC_ALL=C sort)
  [[ ${#documents[@]} -gt 0 ]] ||
    die "no shards in $data, and no text to make them from; run first: MORE_TEXT=1 scripts/quickstart.sh --iterations 0"
  say "shards: ${#documents[@]} documents, shuffled, to $data"
  "$build/make_shards" --tokenizer data/quickstart/tokenizer.model --out "$data" --shuffle 1 --val-fraction 0.02 \
    --replace-invalid "${documents[@]}" || exit 1
}

# train NAME FLAG ...
train() {
  local name=$1 began=$SECONDS
  shift
  rm -rf "${out:?}/$name"
  "${launch[@]}" "$build/train_gpt" --config "configs/$preset.env" --output-dir "$out/$name" --run-id "$name" \
    --data-path "$data" --tokenizer-path= "${train_only[@]}" --device "$device" \
    --train-log-every 100 --train-batch-tokens "$batch_tokens" --iterations "$steps" --warmdown-iters $((steps / 3)) \
    --muon-momentum-warmup-steps $((steps / 4)) --val-batch-size 65536 "${rates[@]}" "${flags[@]}" "$@" >"$out/$name.txt" 2>&1 || {
    say "FAIL $name (exit $?)"
    grep -m 1 ERROR "$out/$name.txt" || tail -n 5 "$out/$name.txt"
    failed=1
    return
  }
  rm -f "$out/$name"/final_model.*
  runs+=("$out/$name")
  say "$name: $((SECONDS - began)) s, $(grep -o '^step:.* train_loss:[0-9.]*' "$out/$name.txt" | tail -n 1)"
}

[[ -n $(compgen -G "$data/fineweb_train_*.bin") ]] || make_data
runs=() failed=0
if [[ ${#dtypes[@]} -gt 0 ]]; then
  for dtype in "${dtypes[@]}"; do
    IFS=: read -r format seed <<<"$dtype"
    name=${dtype/:/_seed_} name=${name//[=,]/_} fp8=0
    [[ " ${runs[*]} " != *" $out/$name "* ]] || name+=_again
    if [[ $format == fp8* ]]; then
      fp8=${format#fp8} fp8=${fp8#=} fp8=${fp8:-1} format=bf16
    fi
    train "$name" --compute-dtype "$format" --fp8 "$fp8" ${seed:+--seed "$seed"}
  done
else
  train fp32_reference --compute-dtype fp32 --fused 0 --graphs 0
  train bf16_reference --compute-dtype bf16 --fused 0 --graphs 0
  train bf16_fused --compute-dtype bf16
  train bf16_other_seed --compute-dtype bf16 --seed 1338
fi
[[ ${#runs[@]} -gt 0 ]] || die "no run to report"
"$python" tests/bench/loss_report.py "${runs[@]}" --picture "$out/losses.svg" | tee "$out/table.txt"
exit "$failed"
