#!/usr/bin/env bash
# usage: scripts/bench_versions.sh [--recipe NAME] [--rounds N] [--steps N] BUILD BUILD ... [-- TRAIN_GPT_FLAG ...]
#
# Measures what a change gains: runs the programs of several build folders alternately on one GPU, the one before the
# change first, with configs/record.env and configs/gpt124m.env or the named recipe, in bf16 with synthetic tokens.
# Prints the median step times and their ratio to the first program's, the seconds from launch to the first step, and
# the difference of the losses from the first program's; two rounds of 14 steps by default. Logs and the table go to
# $OUT (logs/bench_versions). Flags after -- go to each run:
#   --training-timing-breakdown events    also reports the optimizer's ms
#   --deterministic 1                     losses must be equal if a change must not change any bit
#   --eval-stride 64 --ttt-enabled 1      also reports the seconds for scores
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
    --recipe | --rounds | --steps) [[ $# -ge 2 ]] || die "$1 requires a value" ;;&
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
[[ ${#builds[@]} -gt 1 ]] || die "name at least two build folders; the others are compared with the first"
require_presets "${recipes[@]}"
for build in "${builds[@]}"; do need_gpu_and_build; done
make_folders
rm -f "$out"/*.jsonl "$out"/*.log
# Older versions may not know every setting or a recipe's defaults, so pass the settings that differ from the
# defaults of the last build.
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
