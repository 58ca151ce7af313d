#!/usr/bin/env bash
# usage: usage_test.sh
#
# Every script explains itself, and refuses what it does not know with exit status 64 and the name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

for script in setup build test quickstart launch bench ladder reproduce_record score_stages bundle release dev/{lint,gpu_check,gpu_sanitize,gpu_repeat,fuzz,bare_machine,report_pictures,package_check}; do
  help=$("scripts/$script.sh" --help)
  [[ $help == "usage: scripts/$script.sh"* ]] || { echo "$script.sh --help said: $help"; exit 1; }
done
for script in setup build ladder reproduce_record score_stages bundle release dev/{lint,gpu_check,gpu_sanitize,gpu_repeat,fuzz,bare_machine,report_pictures,package_check}; do
  status=0
  message=$("scripts/$script.sh" --no-such-flag 2>&1) || status=$?
  [[ $status == 64 && $message == *'unknown argument "--no-such-flag"'* ]] ||
    { echo "$script.sh --no-such-flag exited $status and said: $message"; exit 1; }
done
