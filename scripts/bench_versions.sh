#!/usr/bin/env bash
# usage: scripts/bench_versions.sh [--recipe NAME] [--rounds N] [--steps N] BUILD BUILD ... [-- TRAIN_GPT_FLAG ...]
#
# What does a change bring? The programs of several build folders, the one before the change first, on
# one GPU in turns: configs/record.env and configs/gpt124m.env, or the one named, in bf16 on synthetic
# tokens; the median step times and their ratio to the first program's, seconds from launch to the first
# step, and how far the losses are from the first program's; two rounds of 14 steps by default. Logs and the
# table go to $OUT (logs/bench_versions). Flags after -- go to each run:
#   --training-timing-breakdown events    the optimizer's ms too
#   --deterministic 1                     losses that must be equal, if a change is to change no bit
#   --eval-stride 64 --ttt-enabled 1      the seconds that scores take, too
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

rounds=2 steps=14 recipes=(record gpt124m) builds=()
take_flags "$@"
set -- "${own[@]}"
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --recipe | --rounds | --steps) [[ $# -ge 2 ]] || die "$1 wants a value" ;;&
    --recipe) recipes=("$2") ;;
    --rounds) rounds=$2 ;;
    --steps) steps=$2 ;;
    -*) bad_argument "$1" ;;
    *)
      builds+=("${1%/}")
      shift
      continue
      ;;
  esac
  shift 2
done
[[ ${#builds[@]} -gt 1 ]] || die "name two build folders or more, the first to compare with"
require_presets "${recipes[@]}"
for build in "${builds[@]}"; do need_gpu_and_build; done
make_folders
rm -f "$out"/*.jsonl "$out"/*.log
# Older versions do not know every setting, nor what a recipe's are: what differs from the defaults of the last build.
settings() { "$build/train_gpt" inspect --settings "$1" | sort; }
for recipe in "${recipes[@]}"; do
  comm -23 <(settings "configs/$recipe.env") <(settings /dev/null) >"$work/$recipe.env"
done
failed=0

for ((round = 1; round <= rounds; ++round)); do
  for recipe in "${recipes[@]}"; do
    for build in "${builds[@]}"; do
      name=$(basename "$build")
      measured_run "$recipe.${name//./_}.$round" --config "$work/$recipe.env" --iterations "$steps" \
        --compute-dtype bf16 --val-batch-size 65536 --val-tokens 65536 "${flags[@]}" || failed=1
    done
  done
done
"$python" tests/bench/shapes_report.py "$out" | tee "$out/table.txt"
exit "$failed"
