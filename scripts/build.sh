#!/usr/bin/env bash
# usage: scripts/build.sh [PRESET] [-DNAME=VALUE ...] [--target NAME ...]
#
# Configures and builds a preset of CMakePresets.json on all cores:
#   default  build/       Release; with CUDA if LibTorch's CUDA libraries and a usable nvcc 13 are installed,
#                         else for the CPU (CMake's line "LibTorch in ..." says which, and why)
#   cpu      build-cpu/   Release, without CUDA
#   cuda     build-cuda/  Release, with CUDA; fails if these are not installed
#   asan     build-asan/  address and undefined-behaviour sanitizers, on the CPU
#   tsan     build-tsan/  thread sanitizer: base, config and data, which use threads but not LibTorch
#   fuzz, libfuzzer       only the fuzz targets, for scripts/dev/fuzz.sh: build-fuzz/, build-libfuzzer/
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
variables=() targets=()
while [[ ${1-} == -D* ]]; do
  variables+=("$1")
  shift
done
if [[ ${1-} == --target && $# -gt 1 ]]; then
  targets=("$@")
  set --
fi
[[ $# == 0 ]] || bad_argument "$1"
[[ -d .venv ]] || die "no .venv: run scripts/setup.sh first"

say "building preset $preset"
cmake --preset "$preset" "${variables[@]}"
cmake --build --preset "$preset" -j "$(nproc)" "${targets[@]}"
