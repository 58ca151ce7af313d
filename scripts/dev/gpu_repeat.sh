#!/usr/bin/env bash
# usage: scripts/dev/gpu_repeat.sh [--starts N] [--steps N] [--presets "NAME ..."] [--ranks "N ..."]
#
# Checks that runs with DETERMINISTIC=1 repeat bit by bit on the GPUs of this host: starts each preset of configs/
# (record and record_1061) N times (4) on each number of ranks (1, 2, 4, … up to the number of GPUs) for a few steps
# (4) of synthetic tokens, and compares losses, gradient norms and every tensor of the checkpoint after the first step.
# In it Muon's "momentum" and AdamW's "exp_avg" hold the reduced gradients, and "parameter" the updated parameters.
# Reports which tensors differ and which starts agree; exit status 1 if anything differs. NCCL's rings of every start,
# the losses and the table go to $OUT (logs/gpu_repeat by default). Requires an existing build/. Settings in the
# environment apply to every run.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

starts=4 steps=4 presets="record record_1061" ranks=""
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --starts) starts=$2 ;;
    --steps) steps=$2 ;;
    --presets) presets=$2 ;;
    --ranks) ranks=$2 ;;
    *) bad_argument "$1" ;;
  esac
  shift 2
done
# shellcheck disable=SC2086
require_presets $presets
need_gpu_and_build
if [[ -z $ranks ]]; then
  count=$(visible_gpus | wc -l)
  for ((n = 1; n <= count; n *= 2)); do ranks+=" $n"; done
fi
make_folders
: >"$out/table.txt"
different=0

# start PRESET RANKS NUMBER: trains on $tokens; writes to $work/PRESET.RANKS/NUMBER/.
start() {
  local preset=$1 count=$2 folder=$work/$1.$2/$3 name=$1.$2.$3
  mkdir -p "$work/$preset.$count"
  NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV,TUNING NCCL_DEBUG_FILE=$work/nccl.$name.%p \
    timeout -k 10 120 "${mpi[@]}" -np "$count" "$build/train_gpt" --config "configs/$preset.env" \
    --data-path "$tokens" --tokenizer-path= --output-dir "$folder" --run-id repeat "${train_only[@]}" \
    --val-batch-size 65536 --val-tokens 65536 --deterministic 1 --iterations "$steps" --enable-looping-at 0.5 \
    --checkpoint-every 1 --keep "$steps" >"$out/$name.log" 2>&1 </dev/null || {
    echo "FAIL $name (exit $?)"
    tail -n 5 "$out/$name.log"
    different=1
  }
  cat "$work/nccl.$name."* 2>/dev/null | sed -n 's/.*NCCL INFO \(Channel [0-9/]* : .*\|Ring [0-9]* : .*\)/\1/p' |
    sort -u >"$out/$name.rings"
  cp "$folder/metrics.jsonl" "$out/$name.jsonl" 2>/dev/null
  rm -rf "$folder"/final_model.* "$work/nccl.$name."*
}

for preset in $presets; do
  tokens=synthetic:zipf
  if reads_documents "$preset"; then tokens=synthetic:documents; fi
  for count in $ranks; do
    say "$preset on $count, $starts starts, $SECONDS s"
    for ((i = 1; i <= starts; ++i)); do start "$preset" "$count" "$i"; done
    "$python" tests/bench/repeat_report.py "$work/$preset.$count" | tee "$work/report" || different=1
    { printf '%-12s %s ranks  ' "$preset" "$count" && tail -n 1 "$work/report"; } >>"$out/table.txt"
    if [[ $count != 1 ]]; then
      printf 'rings of %s starts: %s kinds\n' "$starts" \
        "$(md5sum "$out/$preset.$count."*.rings | cut -d ' ' -f 1 | sort -u | wc -l)" | tee -a "$out/table.txt"
    fi
    rm -rf "${work:?}/$preset.$count"
  done
done
say "table, $SECONDS s"
cat "$out/table.txt"
exit "$different"
