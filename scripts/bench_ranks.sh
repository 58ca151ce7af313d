#!/usr/bin/env bash
# usage: scripts/bench_ranks.sh [--rounds N] [--steps N] [--presets "NAME ..."] [--ranks "N ..."]
#
# Measures scaling over the GPUs of this host or CUDA_VISIBLE_DEVICES: configs/record.env and
# configs/speedrun_124m.env in bf16 on 1, 2, 4, … ranks alternately, with the same synthetic tokens, and as one
# independent rank on every GPU at once, which finds the slowest GPU. Then compares two runs with DETERMINISTIC=1 bit
# by bit, and traces one step of each preset on all GPUs. Tables, metrics and pictures of the traces go to $OUT
# (logs/bench_ranks by default). Requires an existing build/ and otherwise idle GPUs. Settings in the environment
# apply to every run: DATA_PATH=synthetic:documents ENABLE_LOOPING_AT=0 --presets record_1061 measures the last record
# with depth recurrence.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

rounds=2 steps=16 presets="record speedrun_124m" ranks=""
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --rounds) rounds=$2 ;;
    --steps) steps=$2 ;;
    --presets) presets=$2 ;;
    --ranks) ranks=$2 ;;
    *) bad_argument "$1" ;;
  esac
  shift 2
done
need_gpu_and_build
mapfile -t gpus < <(visible_gpus)
if [[ -z $ranks ]]; then
  for ((n = 1; n <= ${#gpus[@]}; n *= 2)); do ranks+=" $n"; done
fi
make_folders
mkdir "$work/runs"
export DATA_PATH=${DATA_PATH:-synthetic:zipf}

# train NAME RANKS PRESET FLAG ...: writes log and metrics to $work/runs/NAME.{log,jsonl}.
train() {
  local name=$1 count=$2 preset=$3
  shift 3
  timeout -k 10 240 "${mpi[@]}" -np "$count" build/train_gpt --config "configs/$preset.env" \
    --compute-dtype bf16 --tokenizer-path= --output-dir "$work/$name" \
    --run-id "$name" "${train_only[@]}" --val-batch-size 524288 --val-tokens 524288 \
    --training-timing-breakdown events --iterations "$steps" "$@" \
    >"$work/runs/$name.log" 2>&1 </dev/null || {
    echo "FAIL $name (exit $?)"
    tail -n 5 "$work/runs/$name.log"
  }
  cp "$work/$name/metrics.jsonl" "$work/runs/$name.jsonl" 2>/dev/null
  cp "$work/$name/"trace_rank0.json "$work/" 2>/dev/null
  grep -h '^timing_breakdown' "$work/runs/$name.log" | tail -n 1
  rm -rf "${work:?}/$name"
}

# side_by_side PRESET ROUND: runs one independent rank on each GPU at the same time.
side_by_side() {
  local i
  for i in "${!gpus[@]}"; do
    CUDA_VISIBLE_DEVICES=${gpus[i]} train "$1.alone-$i.$2" 1 "$1" &
  done
  wait
}

for ((round = 1; round <= rounds; ++round)); do
  for preset in $presets; do
    for count in $ranks; do
      say "round $round, $preset on $count"
      train "$preset.$count.$round" "$count" "$preset"
    done
    say "round $round, $preset as one rank on every GPU"
    side_by_side "$preset" "$round"
  done
done
most=${ranks##* }
first=${presets%% *}
say "two deterministic runs, $first on $most"
steps=8
for again in 1 2; do train "deterministic-$again" "$most" "$first" --deterministic 1; done
losses() { grep -o '"train_loss":[^,}]*' "$work/runs/$1.jsonl"; }
if [[ -s $work/runs/deterministic-1.jsonl ]] &&
  diff <(losses deterministic-1) <(losses deterministic-2) >/dev/null; then
  echo "losses of both runs are equal bit for bit"
else
  echo "losses of the two runs DIFFER"
fi
for preset in $presets; do
  say "a trace, $preset on $most"
  train "trace-$preset" "$most" "$preset" --profile 1 --profile-start 4 --profile-steps 2
  "$python" scripts/trace_picture.py "$work/trace_rank0.json" "$out/trace_$preset.svg" --step 2
  gzip -c "$work/trace_rank0.json" >"$out/trace_$preset.json.gz"
  rm -f "$work/trace_rank0.json"
done
cat "$work"/runs/*.log >"$out/log.txt"
"$python" tests/bench/ranks_report.py "$work/runs" | tee "$out/table.txt"
