#!/usr/bin/env bash
# usage: scripts/dev/gpu_check.sh [PART ...]
#
# Checks that need a GPU, with an existing build/, in about ten minutes on one large GPU. Each part has a time limit,
# and a failed part does not stop the others; ends with a table. Runs all parts but the last two unless PART is given:
#   tests            the GPU tests of build/ on all GPUs; tests of several ranks run if there are several GPUs;
#                    ends after TEST_SECONDS (1800); no test may be skipped except those that tests/runner/skips.py
#                    lists
#   record           configs/record.env at full size, bf16, 30 steps
#   record_dtypes    record in fp32 and in bf16, compared over 20 steps of 98,304 tokens
#   speedrun         configs/speedrun_124m.env at full size, bf16, 30 steps of synthetic tokens
#   speedrun_dtypes  speedrun in fp32 and in bf16, compared over 20 steps of 98,304 tokens
#   last_record      configs/record_1061.env at full size, bf16, 30 steps of synthetic documents, the second half
#                    with depth recurrence
#   last_record_dtypes  last_record in fp32 and in bf16, compared over 20 steps of 98,304 tokens
#   parity           the reference cases of PARITY_DIR (compare.py and its cases), fp32, the last record's cases in
#                    LASTRECORD_DIR, and the cases of records 43, 89 and 91 in SPEEDRUN_DIR
#   peer             the PyTorch eager peer of record, bf16, 5 steps
#   input            record with each overlap switch on and off, slow storage, and the cost of timing
#                    (build/input_bench, which is built with the tests)
#   trace            a trace of one step of record, in $OUT
#   scores           record's final scores: artifact, sliding window and test-time training on 2.0 million
#                    synthetic validation tokens, with the seconds of each
#   start            the time to the first step of one run, and of four runs that start at once
#   quickstart       scripts/quickstart.sh with this build; its text comes from a package server, or from
#                    data/quickstart if it was unpacked before
#   rank_tests       the GPU tests of several ranks alone, on two GPUs and more up to all of this host
#   rank_speed       scripts/bench.sh ranks with the GPU counts RANKS ("4 8"; default: 1, 2, 4, ...) and the presets
#                    PRESETS (default: every record's): ms a step, communication, memory, time to the first step
# On eight GPUs the two take a call of ten minutes each: gpu_check.sh rank_tests; RANKS="4 8" gpu_check.sh rank_speed
# record reads DATA_PATH (data/quickstart/shards by default). PYTHON (python3) requires numpy, and torch for the peer.
# Tables, log and metrics go to $OUT (logs/gpu_check by default).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

parts=()
for argument in "$@"; do
  case $argument in
    -h | --help) usage 0 ;;
    tests | record | record_dtypes | speedrun | speedrun_dtypes | last_record | last_record_dtypes | parity | peer | input | trace | \
      scores | start | quickstart | rank_tests | rank_speed) parts+=("$argument") ;;
    *) bad_argument "$argument" ;;
  esac
done
[[ ${#parts[@]} -gt 0 ]] ||
  parts=(tests record record_dtypes speedrun speedrun_dtypes last_record last_record_dtypes parity peer input trace scores start quickstart)
need_gpu_and_build

make_folders # in $work: synthetic shards and discarded weights
text_shards=${DATA_PATH:-data/quickstart/shards}
: >"$out/summary.txt"
: >"$out/log.txt"
failed=0

row() { printf '%-22s %s\n' "$1" "$2" >>"$out/summary.txt"; }

# limited SECONDS COMMAND ...: appends the output to the log and keeps it in $work/output; sets `status` on
# failure.
limited() {
  local limit=$1 code began=$SECONDS
  shift
  timeout -k 10 "$limit" "$@" >"$work/output" 2>&1 </dev/null
  code=$?
  { echo "== $*"; cat "$work/output"; } >>"$out/log.txt"
  tail -n 5 "$work/output"
  case $code in
    0) status="ok   $((SECONDS - began))s" ;;
    77) status="skipped" ;; # skipped entirely; skips.py decides whether that is allowed
    124 | 137) status="FAIL over ${limit}s" ;;
    *) status="FAIL exit $code" ;;
  esac
  if [[ $code != 0 && $code != 77 ]]; then failed=1; fi
  return "$code"
}

# train NAME SECONDS PRESET FLAG ...
train() {
  local name=$1 limit=$2 preset=$3
  shift 3
  rm -f "$out/$name.jsonl"
  limited "$limit" build/train_gpt --config "configs/$preset.env" --output-dir "$work/$name" \
    --run-id "$name" "${train_only[@]}" "$@"
  cp "$work/$name/metrics.jsonl" "$out/$name.jsonl" 2>/dev/null
  row "$name" "$status, $("$python" tests/bench/run_report.py row "$out/$name.jsonl" "$work/output")"
  rm -rf "${work:?}/$name"
}

# Compares the first steps in two number formats, with the same seed and tokens.
side_by_side() {
  local name=$1 preset=$2 dtype
  shift 2
  for dtype in fp32 bf16; do
    train "${name}_$dtype" 90 "$preset" --compute-dtype "$dtype" --iterations 20 \
      --train-batch-tokens 98304 --grad-accum-steps 0 "$@"
  done
  "$python" tests/bench/run_report.py compare "$out/${name}_fp32.jsonl" "$out/${name}_bf16.jsonl" |
    tee "$work/table"
  cat "$work/table" >>"$out/log.txt"
  row "$name fp32, bf16" "$(tail -n 1 "$work/table")"
}

# run_gpu_tests [--ranks]
run_gpu_tests() {
  rm -rf "$out/tests" # an earlier call's logs
  "$python" tests/runner/gpu_tests.py "$@" --seconds "${TEST_SECONDS:-1800}" "$out/tests" | tee -a "$out/summary.txt"
  [[ ${PIPESTATUS[0]} == 0 ]] || failed=1
  cat "$out"/tests/*.log >>"$out/log.txt"
  limited 10 "$python" tests/runner/skips.py --strict "$out/log.txt"
  row skips "$status, $(grep -c '^SKIPPED ' "$out/log.txt") tests"
}

run_parity() {
  local name
  if [[ ! -f ${PARITY_DIR-}/compare.py ]]; then
    row parity "skipped: no compare.py in PARITY_DIR='${PARITY_DIR-}'"
    return
  fi
  for name in record_default record_switches record_quantised speedrun_124m; do
    limited 60 env DEVICE=cuda "$python" "$PARITY_DIR/compare.py" build/train_gpt "$name"
    row parity "$status, $(grep "^$name:" "$work/output")"
  done
  if [[ -f ${LASTRECORD_DIR-}/compare.py ]]; then
    for name in "lastrec_train --training" "lastrec_gates_a --training" lastrec_quantised lastrec_ttt; do
      # shellcheck disable=SC2086
      limited 120 env DEVICE=cuda "$python" "$LASTRECORD_DIR/compare.py" build/train_gpt $name
      row parity "$status, $(grep "^${name%% *}:" "$work/output")"
    done
  fi
  [[ -f ${SPEEDRUN_DIR-}/compare.py ]] || return 0
  for name in r43_train head_train r91_train; do
    limited 60 env DEVICE=cuda "$python" "$SPEEDRUN_DIR/compare.py" build/train_gpt "$name"
    row parity "$status, $(grep "^$name:" "$work/output")"
  done
}

run_peer() {
  limited 90 env DATA_PATH="$text_shards" WARMDOWN_ITERS=0 DEVICE=cuda COMPUTE_DTYPE=bf16 \
    "$python" tests/bench/torch_compile_peer.py --eager --config configs/record.env --steps 5 --warmup 1
  row "peer of record" "$status, $("$python" tests/bench/run_report.py peer "$work/output")"
}

run_input() {
  limited 420 build/input_bench --config configs/record.env --compute-dtype bf16 "$@"
  tee -a "$out/log.txt" <"$work/output"
  row "input pipeline" "$status, $(grep '^all on  ' "$work/output" | tr -s ' ')"
}

run_trace() {
  local trace=$work/trace/trace_rank0.json
  limited 180 build/train_gpt --config configs/record.env --compute-dtype bf16 --output-dir "$work/trace" \
    --run-id trace "${train_only[@]}" --val-tokens 65536 --iterations 8 --profile 1 --profile-start 4 \
    --profile-steps 2 --training-timing-breakdown events "$@"
  row trace "$status, $(stat -c %s "$trace") bytes"
  grep '^timing_breakdown step:8' "$work/output"
  gzip -c "$trace" >"$out/trace.json.gz"
}

run_scores() {
  limited 300 build/train_gpt --config configs/record.env --data-path synthetic:zipf --tokenizer-path= \
    --compute-dtype bf16 --output-dir "$work/scores" --run-id scores --iterations 4 --warmup-steps 1 \
    --warmdown-iters 0 --val-loss-every 0 --max-wallclock-seconds 0 --val-tokens 2000896
  grep -E '^(DIAGNOSTIC|Serialized|Total|artifact_time|final_|ttt_|legal_)' "$work/output"
  row scores "$status, $(sed -nE 's/^(final_int6_[a-z_0-9]+|legal_ttt) .*eval_time:([0-9]+)ms$/\1 \2 ms/p' "$work/output" |
    paste -sd ';')"
}

run_rank_speed() {
  local options=()
  # shellcheck disable=SC2206
  [[ -z ${RANKS-} ]] || options+=(--ranks $RANKS)
  [[ -z ${PRESETS-} ]] || options+=(--presets "$PRESETS")
  limited 1800 env OUT="$out/rank_speed" scripts/bench.sh ranks "${options[@]}"
  row rank_speed "$status"
  sed -n '/  ratio  of linear  /,$p' "$work/output" >>"$out/summary.txt"
}

run_part() {
  local text=(--data-path "$text_shards" --tokenizer-path=)
  # Validation, once at the end, is one batch no larger than a micro-batch, so the peak memory is training's.
  local synthetic=(--data-path "$work/shards" --val-batch-size 65536 --val-tokens 65536)
  local documents=(--data-path synthetic:documents --tokenizer-path= --enable-looping-at 0.5
    --val-batch-size 65536 --val-tokens 65536)
  if [[ $1 == speedrun* && ! -d $work/shards ]]; then
    limited 60 "$python" tests/bench/zipf_shards.py "$work/shards" 50257 17000000 200000
  fi
  case $1 in
    tests) run_gpu_tests ;;
    rank_tests) run_gpu_tests --ranks ;;
    rank_speed) run_rank_speed ;;
    record) train record_full 120 record --compute-dtype bf16 --iterations 30 "${text[@]}" ;;
    record_dtypes) side_by_side record record "${text[@]}" ;;
    speedrun)
      train speedrun_full 150 speedrun_124m --compute-dtype bf16 --iterations 30 "${synthetic[@]}"
      ;;
    speedrun_dtypes) side_by_side speedrun speedrun_124m "${synthetic[@]}" ;;
    last_record) train last_record_full 200 record_1061 --compute-dtype bf16 --iterations 30 "${documents[@]}" ;;
    last_record_dtypes) side_by_side last_record record_1061 "${documents[@]}" ;;
    parity) run_parity ;;
    peer) run_peer ;;
    input) run_input "${text[@]}" ;;
    trace) run_trace "${text[@]}" ;;
    scores) run_scores ;;
    start)
      limited 120 "$python" tests/bench/start_together.py
      row start "$status, $(grep '^| 1 ' "$work/output")"
      ;;
    quickstart)
      limited 300 env SETUP=0 RUN_ID=gpu_check_quickstart scripts/quickstart.sh
      row quickstart "$status, $(grep -E '^(baseline|this model)' "$work/output" | tr -s ' ' | paste -sd ';')"
      ;;
  esac
}

for part in "${parts[@]}"; do
  say "$part"
  run_part "$part"
done
say "summary, $SECONDS s"
cat "$out/summary.txt"
exit "$failed"
