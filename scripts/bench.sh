#!/usr/bin/env bash
# usage: scripts/bench.sh NAME [OPTION ...] [-- TRAIN_GPT_FLAG ...]
#
# Measures train_gpt: speed, memory, losses of number formats, scores, the loader. scripts/bench.sh --help lists the
# benchmarks, and NAME --help the options of one. Requires an existing build/ (or BUILD_DIR), otherwise idle hardware,
# and a PYTHON (python3, without a GPU .venv's) with torch, and Triton on a GPU, for the comparisons with PyTorch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh
# shellcheck source=scripts/gpu_common.sh
source scripts/gpu_common.sh

if [[ $# == 0 || $1 == -h || $1 == --help || " $* " == *" --help "* ]]; then
  exec "$python" tests/bench/bench.py "$@"
fi
if have_gpu; then
  need_gpu_and_build
else
  [[ -x $build/train_gpt ]] || die "no $build/train_gpt: run scripts/build.sh first"
  [[ -n ${PYTHON-} || ! -x .venv/bin/python ]] || python=.venv/bin/python
fi
BUILD_DIR=$(realpath "$build")
export BUILD_DIR
exec "$python" tests/bench/bench.py "$@"
