#!/usr/bin/env bash
# usage: scripts/build.sh [PRESET] [-DNAME=VALUE ...]
#
# Configures and builds a preset of CMakePresets.json on all cores:
#   default  build/       Release; CUDA where LibTorch's CUDA set is installed, own kernels where nvcc is
#   cpu      build-cpu/   Release, without CUDA
#   cuda     build-cuda/  Release; an error where CUDA is not there
#   asan     build-asan/  address and undefined-behaviour sanitizers, on the CPU
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

case ${1-} in -h | --help) usage 0 ;; esac
preset=default
if is_preset "${1-}"; then
  preset=$1
  shift
fi
for argument in "$@"; do
  [[ $argument == -D* ]] || bad_argument "$argument"
done
[[ -d .venv ]] || die "no .venv: run scripts/setup.sh first"

say "building preset $preset"
cmake --preset "$preset" "$@"
cmake --build --preset "$preset" -j "$(nproc)"
