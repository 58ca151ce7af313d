#!/usr/bin/env bash
# usage: scripts/bench_recurrence.sh [--preset NAME] [--rounds N] [--steps N] [--programs "NAME ..."]
#
# Measures depth recurrence in configs/record_1061.env, or another preset that has it, on one GPU with synthetic
# documents: without recurrence, and with it from the first step on. Alternates between train_gpt in bf16, with
# ACTIVATION_RECOMPUTE=light and with FP8=1, and the same model under torch.compile
# (tests/bench/torch_compile_peer.py) in bf16. Reports for each the median of N steps (14) after the first four, peak
# memory, and the seconds from launch to the first step, without warm-up steps; the table is printed last. About seven
# minutes per round, half of them the peer's compilation; --programs selects some of bf16, bf16_light, fp8 and peer.
# Logs and the table go to $OUT (logs/bench_recurrence).
#
# Without a GPU a tiny model runs instead: this only tests the script, its times mean nothing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

preset=record_1061 rounds=1 steps=14 programs=(bf16 bf16_light fp8 peer)
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --preset | --rounds | --steps | --programs) [[ -n ${2-} ]] || die "$1 requires a value" ;;&
    --preset) preset=$2 ;;
    --rounds) rounds=$2 ;;
    --steps) steps=$2 ;;
    --programs) read -ra programs <<<"$2" ;;
    *) bad_argument "$1" ;;
  esac
  shift 2
done
require_presets "$preset"
for program in "${programs[@]}"; do
  [[ $program =~ ^(bf16|bf16_light|fp8|peer)$ ]] || die "no program '$program': expected bf16, bf16_light, fp8 or peer"
done
# Both programs read these settings. The learning rate is constant, whatever the number of steps.
export DATA_PATH=synthetic:documents WARMDOWN_FRAC=0 WARMDOWN_ITERS=0 COMPUTE_DTYPE=bf16
peer_flags=()
if have_gpu; then
  need_gpu_and_build
  export DEVICE=cuda VAL_BATCH_SIZE=65536 VAL_TOKENS=65536
else
  [[ -x $build/train_gpt ]] || die "no $build/train_gpt: run scripts/build.sh first"
  say "no GPU: a tiny model on the CPU, without FP8 and torch.compile, whose times mean nothing"
  export DEVICE=cpu COMPUTE_DTYPE=fp32 MODEL_DIM=32 NUM_HEADS=4 NUM_KV_HEADS=2 VOCAB_SIZE=512 ROPE_DIMS=4 MLP_MULT=2 \
    TRAIN_SEQ_LEN=64 EVAL_SEQ_LEN=64 TRAIN_BATCH_TOKENS=1024 GRAD_ACCUM_STEPS=2 VAL_BATCH_SIZE=1024 VAL_TOKENS=1024
  peer_flags=(--eager)
  mapfile -t programs < <(printf '%s\n' "${programs[@]}" | grep -vx fp8)
fi
make_folders # in $work: discarded weights and the peer's compile cache
rm -f "$out"/*.jsonl "$out"/*.log "$out"/*.err
failed=0

# start PROGRAM NAME
start() {
  local fp8=0 recompute=0
  case $1 in
    peer)
      TORCHINDUCTOR_CACHE_DIR=$work/inductor TRITON_CACHE_DIR=$work/triton timeout -k 10 400 "$python" \
        tests/bench/torch_compile_peer.py "${peer_flags[@]}" --config <("$build/train_gpt" inspect --settings "configs/$preset.env") --steps "$steps" --warmup 0 \
        >"$out/$2.log" 2>"$out/$2.err" </dev/null
      local code=$?
      [[ $code == 0 ]] || {
        say "FAIL $2 (exit $code)"
        tail -n 5 "$out/$2.err"
      }
      printf '%4d s  %s\n' "$SECONDS" "$2"
      return "$code"
      ;;
    fp8) fp8=1 ;;
    bf16_light) recompute=light ;;
  esac
  measured_run "$2" --config "configs/$preset.env" --data-path "$DATA_PATH" --iterations "$steps" --warmup-steps 0 \
    --fp8 "$fp8" --activation-recompute "$recompute"
}

for ((round = 1; round <= rounds; ++round)); do
  for depth in before in; do
    for program in "${programs[@]}"; do
      # Fraction of the run at which recurrence begins: 2 (never) or 0.
      ENABLE_LOOPING_AT=$([[ $depth == in ]] && echo 0 || echo 2) start "$program" "$program.$depth.$round" || failed=1
    done
  done
done
"$python" tests/bench/recurrence_report.py "$out" | tee "$out/table.txt"
exit "$failed"
