#!/usr/bin/env bash
# usage: scripts/bench.sh [--recipe NAME] [--rounds N] [--steps N] [--no-peer]
#
# Compares train_gpt, in bf16 and with FP8=1, with the same model under torch.compile in bf16
# (tests/bench/torch_compile_peer.py) on one GPU, in alternating runs on the same synthetic tokens, for
# configs/record.env and configs/speedrun_124m.env or the named recipe: step times, watts, clock and joules. Then times
# each operation alone (build/op_bench) and the phases of train_gpt's step. Tables, picture and logs go to $OUT
# (logs/bench by default). Requires an existing build/, an idle GPU, and a PYTHON (python3) with torch and Triton.
#
# The peer compiles at every start, so it starts once per recipe and round and then runs all its steps: the first step
# comes after 40 to 120 s in round 1, which begins with an empty compile cache, and after about 20 s in later rounds.
# Two rounds of ten steps (the defaults) of both recipes, with the operations, take less than six minutes on an H200.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

rounds=2 steps=10 recipes=(record speedrun_124m) programs=(train_gpt train_gpt_fp8 peer)
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --no-peer)
      programs=(train_gpt train_gpt_fp8)
      shift
      continue
      ;;
    --recipe) recipes=("${2-}") ;;
    --rounds) rounds=${2-} ;;
    --steps) steps=${2-} ;;
    *) bad_argument "$1" ;;
  esac
  [[ -n ${2-} ]] || die "$1 requires a value"
  shift 2
done
require_presets "${recipes[@]}"
need_gpu_and_build

make_folders # in $work: discarded weights and the peer's compile cache
runs=$out/runs
mkdir -p "$runs"
rm -f "$runs"/*
failed=0

# start PROGRAM RECIPE NAME: writes its log to $runs/NAME.log.
start() {
  local config=(--config "configs/$2.env") fp8=0
  case $1 in
    train_gpt*)
      [[ $1 == train_gpt ]] || fp8=1
      timeout -k 10 120 build/train_gpt "${config[@]}" --compute-dtype bf16 --fp8 "$fp8" --data-path synthetic:zipf \
        --tokenizer-path= --output-dir "$work/run" --run-id "$3" "${train_only[@]}" \
        --val-batch-size 65536 --val-tokens 65536 --training-timing-breakdown events \
        --iterations "$steps" >"$runs/$3.log" 2>&1 </dev/null || return
      mv "$work/run/metrics.jsonl" "$runs/$3.jsonl"
      rm -rf "${work:?}/run"
      ;;
    peer)
      DATA_PATH=synthetic:zipf WARMDOWN_ITERS=0 DEVICE=cuda COMPUTE_DTYPE=bf16 \
        TORCHINDUCTOR_CACHE_DIR=$work/inductor TRITON_CACHE_DIR=$work/triton \
        timeout -k 10 240 "$python" tests/bench/torch_compile_peer.py --config "$runs/$2.env" --steps "$steps" --warmup 1 \
        >"$runs/$3.log" 2>"$runs/$3.err" </dev/null
      ;;
  esac
}

# Runs until it is killed; tests/bench/power_log.py reads its output.
sample_power() {
  date +%s.%N
  exec nvidia-smi --id="${CUDA_VISIBLE_DEVICES:-0}" --query-gpu=timestamp,power.draw.instant,clocks.sm \
    --format=csv,noheader,nounits --loop-ms=50
}

for recipe in "${recipes[@]}"; do build/train_gpt inspect --settings "configs/$recipe.env" >"$runs/$recipe.env"; done
for ((round = 1; round <= rounds; ++round)); do
  for recipe in "${recipes[@]}"; do
    for program in "${programs[@]}"; do
      name=$recipe.$program.$round
      sample_power >"$runs/$name.power" &
      start "$program" "$recipe" "$name" || {
        say "FAIL $name (exit $?)"
        tail -n 20 "$runs/$name".*
        failed=1
      }
      kill $! && wait $! 2>/dev/null
      printf '%4d s  %s\n' "$SECONDS" "$name"
    done
  done
done

tables() {
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  "$python" tests/bench/bench_report.py speed "$runs"
  if [[ -x build/op_bench ]]; then
    timeout 120 build/op_bench "${recipes[@]}" || echo "FAIL op_bench (exit $?)"
  else
    echo "no build/op_bench (built with -DTRAIN_GPT_TESTS=ON)"
  fi
  "$python" tests/bench/bench_report.py phases "$runs"
}
tables 2>&1 | tee "$out/table.txt"
"$python" tests/bench/bench_report.py picture "$runs"
say "$SECONDS s; logs in $runs"
exit "$failed"
