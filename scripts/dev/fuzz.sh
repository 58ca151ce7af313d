#!/usr/bin/env bash
# usage: scripts/dev/fuzz.sh [--seconds N | --runs N] [TARGET ...]
#
# Feeds mutated files to every reader of external files under the address and undefined-behaviour sanitizers, for N
# seconds in all (60) or N files per target. TARGET is as in tests/fuzz/TARGET_fuzz.cpp, all by default. Builds the
# targets first, with the preset libfuzzer if clang has libFuzzer, else with the preset fuzz, which has its own driver.
# Ends with a table. Exit status 1 if a file causes an error: the file and the log are kept in logs/fuzz/TARGET/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

seconds=60 runs='' targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --seconds | --runs)
      [[ ${2-} =~ ^[1-9][0-9]*$ ]] || die "$1 requires a whole number"
      if [[ $1 == --runs ]]; then runs=$2; else seconds=$2; fi
      shift
      ;;
    -*) bad_argument "$1" ;;
    *)
      [[ -f tests/fuzz/$1_fuzz.cpp ]] || die "no target $1: see tests/fuzz"
      targets+=("$1")
      ;;
  esac
  shift
done
if [[ ${#targets[@]} == 0 ]]; then
  for file in tests/fuzz/*_fuzz.cpp; do
    targets+=("$(basename "$file" _fuzz.cpp)")
  done
fi

# In memory if possible: some readers take a path.
TMPDIR=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
# Readers allocate blocks of 1 MiB: a large quarantine of freed memory would take most of the time.
export TMPDIR OMP_NUM_THREADS=1 ASAN_OPTIONS=quarantine_size_mb=8:malloc_context_size=8 \
  UBSAN_OPTIONS=print_stacktrace=1
trap 'rm -rf "$TMPDIR"' EXIT

preset=fuzz engine=driver
echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, decltype(sizeof 0)) { return 0; }' >"$TMPDIR/probe.cpp"
if clang++ -fsanitize=fuzzer "$TMPDIR/probe.cpp" -o "$TMPDIR/probe" 2>/dev/null; then
  preset=libfuzzer engine=libFuzzer
fi
scripts/build.sh "$preset" --target "${targets[@]/#/fuzz_}"

seed=$((RANDOM + 1))
share=$((seconds / ${#targets[@]} + 1))
# fuzz TARGET FOLDER
fuzz() {
  local program=build-$preset/fuzz_$1
  if [[ $preset == fuzz ]]; then
    local limit=(--seconds "$share")
    if [[ -n $runs ]]; then limit=(--runs "$runs"); fi
    "$program" "${limit[@]}" --seed "$seed" --out "$2"
  else
    local limit=(-max_total_time="$share")
    if [[ -n $runs ]]; then limit=(-runs="$runs"); fi
    mkdir "$TMPDIR/$1"
    "$program" "${limit[@]}" -seed="$seed" -artifact_prefix="$2/" -timeout=20 -rss_limit_mb=2048 \
      -verbosity=0 -print_final_stats=1 "$TMPDIR/$1"
  fi
}

say "fuzzing with preset $preset, seed $seed"
status=0
report=("$(printf '%-18s %-9s %12s %12s  %s' target engine executions 'a second' findings)")
for target in "${targets[@]}"; do
  out=logs/fuzz/$target
  rm -rf "$out"
  mkdir -p "$out"
  began=${EPOCHREALTIME/./}
  found=0
  fuzz "$target" "$out" >"$out/log.txt" 2>&1 || found=1
  milliseconds=$(((${EPOCHREALTIME/./} - began) / 1000 + 1))
  count=$(sed -n 's/^executions: *//p; s/^stat::number_of_executed_units: *//p' "$out/log.txt")
  report+=("$(printf '%-18s %-9s %12d %12d  %d' "$target" "$engine" "${count:-0}" \
    $((1000 * ${count:-0} / milliseconds)) "$found")")
  if [[ $found == 1 ]]; then
    status=1
    tail -n 40 "$out/log.txt"
    echo "FINDING in $out/; repeat it with: build-$preset/fuzz_$target FILE, one of:"
    ls "$out"
  fi
done
say "fuzzing"
printf '%s\n' "${report[@]}"
exit "$status"
