#!/usr/bin/env bash
# usage: scripts/bench_cpu.sh [--orders] [--rounds N] [--steps N] [--warmup N] [--program PATH]
#
# Compares the step time of build/train_gpt with a plain PyTorch eager script of the same model, in alternating runs
# with the quickstart's shards and preset and the same number of threads (OMP_NUM_THREADS, else all cores). With
# --orders runs only train_gpt, in the stream and the documents order. Requires an idle machine, shards from
# scripts/quickstart.sh (or DATA_PATH), and LibTorch for Python from scripts/setup.sh --tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

case ${1-} in -h | --help) usage 0 ;; esac
python=.venv/bin/python
"$python" -c 'import numpy, torch' 2>/dev/null ||
  die "no PyTorch in .venv: run scripts/setup.sh --tests first"
[[ -x build/train_gpt || " $* " == *" --program"* ]] ||
  die "no build/train_gpt: run scripts/build.sh first"
[[ -d ${DATA_PATH:-data/quickstart/shards} ]] || die "no shards: run scripts/quickstart.sh first"
exec "$python" tests/bench/bench_cpu.py "$@"
