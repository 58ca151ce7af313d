#!/usr/bin/env bash
# usage: scripts/test.sh [PRESET] [CTEST_ARGUMENT ...]
#
# Sets up, builds with warnings as errors, and runs every test. PRESET is as for scripts/build.sh; the other arguments
# go to ctest, for example: scripts/test.sh asan -R config
# Ends with the skipped tests, and whether tests/runner/skips.py allows them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

case ${1-} in -h | --help) usage 0 ;; esac
preset=default build=build
if is_preset "${1-}"; then
  preset=$1
  [[ $preset == default ]] || build=build-$preset
  shift
fi

scripts/setup.sh --tests
scripts/build.sh "$preset" -DTRAIN_GPT_TESTS=ON -DTRAIN_GPT_WERROR=ON
say "testing preset $preset"
log=$build/Testing/Temporary/LastTest.log status=0
rm -f "$log" # of an earlier run
# The tests declare their PROCESSORS in half cores, so that others run while some wait. Three more, since some tests
# mostly wait for timeouts (docs/benchmarks.md has the time of all).
ctest --preset "$preset" -j "$((2 * $(nproc) + 3))" "$@" || status=$?
[[ ! -e $log ]] || .venv/bin/python tests/runner/skips.py "$log"
exit "$status"
