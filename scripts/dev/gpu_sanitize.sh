#!/usr/bin/env bash
# usage: scripts/dev/gpu_sanitize.sh [--seconds N] [SUITE ...]
#
# Runs the kernel tests (all of build/ops_gpu_tests, or gtest suites such as MlpGpu) under compute-sanitizer, memcheck
# and then racecheck, within N seconds in all (600; an H200 takes about 420). Large tests are slow under the tools, so
# every suite runs its quickest tests first, within its part of the time. Lists the findings and the tests that were
# not reached, and ends with a table. Exit status 1 on an error, a hazard or a failed test, and if a suite has no test
# that passes under a tool. Logs go to $OUT (logs/gpu_sanitize).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

seconds=600 suites=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --seconds)
      seconds=${2-}
      [[ $seconds =~ ^[1-9][0-9]*$ ]] || die "--seconds requires a whole number"
      shift
      ;;
    -*) bad_argument "$1" ;;
    *) suites+=("$1") ;;
  esac
  shift
done
need_gpu_and_build
[[ -x build/ops_gpu_tests ]] || die "no build/ops_gpu_tests (built with -DTRAIN_GPT_TESTS=ON?)"
# The toolkit's folder is often not on PATH.
PATH=$PATH:/usr/local/cuda/bin
command -v compute-sanitizer >/dev/null || die "no compute-sanitizer: it comes with the CUDA toolkit"

out=${OUT:-logs/gpu_sanitize}
mkdir -p "$out"
"$python" tests/ops/sanitize.py --seconds "$seconds" --out "$out" build/ops_gpu_tests "${suites[@]}" |
  tee "$out/table.txt"
