#!/usr/bin/env bash
# usage: cuda_choice_test.sh
#
# Which program a machine builds (cmake/Cuda.cmake), with wheel sets and compilers that only look like
# some: a machine whose toolkit is missing, old or half installed builds the CPU program and says why.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

mkdir -p cpu_set cuda_set/nvidia/cu13/include cuda_set/nvidia/cudnn/lib
touch cuda_set/nvidia/cu13/include/cublas_v2.h cuda_set/nvidia/cudnn/lib/libcudnn.so.9

# nvcc NAME RELEASE SCRIPT: what it does to compile
nvcc() {
  # shellcheck disable=SC2016
  printf '#!/bin/sh\nif [ "$1" = --version ]; then echo "Cuda compilation tools, release %s, V"; exit 0; fi\n%s\n' \
    "$2" "$3" >"$1"
  chmod +x "$1"
}
nvcc old 12.4 'exit 0'
printf '#!/bin/sh\nexit 1\n' >broken && chmod +x broken
nvcc half 13.0 'echo "cuda_runtime.h:1:10: fatal error: crt/host_config.h: No such file" >&2; exit 1'
nvcc whole 13.0 'exit 0'

cat >choose.cmake <<END
include($repository/cmake/Cuda.cmake)
train_gpt_choose_cuda(\${MODE} $work/\${SET} \${NVCCS})
message("with CUDA \${TRAIN_GPT_WITH_CUDA}, \${TRAIN_GPT_CUDA_WHY}")
END
# expect SAID MODE SET NVCC...: CMake wraps its errors, so blanks are compared as one.
expect() {
  local said expected=$1 mode=$2 set=$3
  shift 3
  said=$(cmake "-DMODE=$mode" "-DSET=$set" "-DNVCCS=$(printf "$work/%s;" "$@")" -P choose.cmake 2>&1 | xargs) || true
  [[ $said == *"${expected//@/$work/}"* ]] ||
    { echo "$mode with $set and $*: expected '${expected//@/$work/}', CMake said '$said'"; exit 1; }
}

expect 'with CUDA OFF, TRAIN_GPT_CUDA=OFF' OFF cuda_set whole
expect 'with CUDA OFF, LibTorch is here for the CPU only' AUTO cpu_set whole
expect 'with CUDA OFF, there is no nvcc' AUTO cuda_set missing
expect 'with CUDA OFF, @broken does not run' AUTO cuda_set broken
expect 'with CUDA OFF, @old is release 12.4, and LibTorch needs release 13' AUTO cuda_set old
expect 'with CUDA OFF, @half does not compile a kernel: cuda_runtime.h:1:10: fatal error: crt/host_config.h' \
  AUTO cuda_set missing half
expect 'with CUDA ON, @whole' AUTO cuda_set whole
expect 'with CUDA ON, @whole' ON cuda_set old half whole
for nvcc in missing old half; do
  expect 'run scripts/setup.sh --cuda' ON cuda_set "$nvcc"
done
expect 'TRAIN_GPT_CUDA=ON, but LibTorch is here for the CPU only: run scripts/setup.sh --cuda' ON cpu_set whole
