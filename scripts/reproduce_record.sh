#!/usr/bin/env bash
# usage: scripts/reproduce_record.sh NAME [TRAIN_GPT_FLAG ...]
#        scripts/reproduce_record.sh NAME --compare FOLDER
#
# Trains a published record and compares the run with the record's own logs. NAME is a preset of configs/ whose logs'
# numbers are in data/records/NAME.json: speedrun_43. Downloads the shards that the record reads (two gigabytes for
# speedrun_43; what is there is only verified), trains on all GPUs of this machine, and prints validation losses,
# milliseconds per step and seconds beside the logs' means and standard deviations. The last line says whether the final
# loss is within the logs. --compare only compares the run that is in FOLDER.
#
# A run that was cut or stopped goes on when the same command is started again; RUN_ID (reproduce-NAME) names it, and a
# new name begins another. Losses compare on any GPUs, up to eight, times on the logs' machine. Flags go to train_gpt, for
# example --seed 2, or --fp8 head, the number format of the head in the logs of speedrun_43. Flags and settings that
# change the losses are named, since the run is then no reproduction. DATA_PATH names other shards of FineWeb, and
# nothing is downloaded. CUDA_VISIBLE_DEVICES selects GPUs. Requires an existing build/ (or BUILD_DIR); PYTHON (python3)
# downloads and compares.
#
# Exit status: 0 if the final loss is at most three standard deviations above the logs' mean, 1 if it is higher or the
# run is not finished, 2 if the numbers are not comparable, else the exit code of the training (docs/faults.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

case ${1-} in
  -h | --help) usage 0 ;;
  '') usage 64 >&2 ;;
  -*) bad_argument "$1" ;;
esac
name=$1
shift
[[ -f data/records/$name.json ]] ||
  die "no logs of '$name': expected one of $(basename -s .json data/records/*.json | paste -sd ' ')"
require_presets "$name"

compare() { "$python" scripts/compare_record.py "$name" "$1"; }

if [[ ${1-} == --compare ]]; then
  [[ $# == 2 ]] || die "--compare requires the folder of a run, and nothing else"
  [[ -x $build/train_gpt ]] || die "no $build/train_gpt: run scripts/build.sh first"
  compare "$2"
  exit
fi
[[ ! " $* " =~ \ (--run-id|--output-dir)[\ =] ]] ||
  die "${BASH_REMATCH[1]}: set RUN_ID or OUTPUT_DIR, since the comparison has to find the run"
if [[ " DEVICE=${DEVICE-} $* " =~ (DEVICE=|--device[ =])cpu\  ]]; then
  [[ -x $build/train_gpt ]] || die "no $build/train_gpt: run scripts/build.sh first"
else
  need_gpu_and_build
fi

if [[ -z ${DATA_PATH-} && " $*" != *" --data-path"* ]]; then
  read -r -a shards <<<"$("$python" -c 'import json, sys
shards = json.load(open(sys.argv[1]))["shards"]
print(shards["set"], "--train-shards", shards["train"])' "data/records/$name.json")"
  say "shards: data/download_fineweb.py ${shards[*]}"
  "$python" data/download_fineweb.py "${shards[@]}"
fi

export RUN_ID=${RUN_ID:-reproduce-$name} CHECKPOINT_EVERY=${CHECKPOINT_EVERY:-5m}
export OUTPUT_DIR=${OUTPUT_DIR:-logs/$RUN_ID}
say "training: configs/$name.env, into $OUTPUT_DIR"
# In the background, so that a signal to this script reaches the ranks.
scripts/launch.sh --restarts 5 --config "configs/$name.env" "$@" &
job=$! told=0
trap '((++told)); kill -TERM "$job" 2>/dev/null || true' TERM INT HUP USR1
before=
until [[ $before == "$told" ]]; do # a signal interrupts wait; waiting again returns the status
  before=$told status=0
  wait "$job" || status=$?
done
if [[ $status == 75 ]]; then printf '\nThis goes on: RUN_ID=%s scripts/reproduce_record.sh %s\n' "$RUN_ID" "$name $*"; fi
if [[ $status != 0 ]]; then exit "$status"; fi

say "$OUTPUT_DIR beside the logs"
compare "$OUTPUT_DIR"
