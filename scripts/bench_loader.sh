#!/usr/bin/env bash
# usage: scripts/bench_loader.sh [--rounds N] [--workers N] [--queue N] [--program PATH]
#
# Compares the loader's tokens per second with numpy and PyTorch's DataLoader, in alternating runs on the same shards,
# and measures how long the loader blocks the consumer when a batch is ready. The loader returns the shards' uint16,
# which are copied to the device unchanged; the DataLoader returns int64 inputs and targets, as training scripts use
# it. Reads DATA_PATH, else 100 million synthetic tokens (200 MB, deleted at the end). Requires an idle machine,
# build/loader_bench, and PyTorch from scripts/test.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

case ${1-} in -h | --help) usage 0 ;; esac
python=.venv/bin/python
"$python" -c 'import numpy, torch' 2>/dev/null ||
  die "no PyTorch in .venv: run scripts/setup.sh --tests first"
[[ -x build/loader_bench || " $* " == *" --program"* ]] ||
  die "no build/loader_bench: run scripts/test.sh first"
shards=${DATA_PATH-}
if [[ -z $shards ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  shards=$work/shards
  "$python" tests/bench/zipf_shards.py "$shards" 1024 100000000 100000 25000000
fi
"$python" tests/bench/bench_loader.py "$@" "$shards"
