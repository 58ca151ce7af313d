#!/usr/bin/env bash
# usage: scripts/bundle.sh [--build DIR] OUT.tar.gz|OUT.tar.xz [PROGRAM ...]
#
# Packs a build for a machine that has LibTorch's wheel but neither a compiler nor the packages of setup.sh, which is
# common for GPU nodes: the stripped programs of build/, or the named ones, and in build/lib the shared libraries that
# they load from system packages, since another system's libraries of these names may have another ABI
# (libsentencepiece then crashes). Unpack it in the root of a clone of the same commit there; bench.sh, gpu_check.sh
# and the other scripts find both. To run a program directly:
#   LD_LIBRARY_PATH=build/lib:TORCH/lib:... build/train_gpt
# For several programs .tar.xz is a quarter of the size of .tar.gz, because they contain the same kernels.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

build=build
case ${1-} in
  -h | --help) usage 0 ;;
  --build)
    [[ $# -ge 2 ]] || die "--build requires a folder"
    build=${2%/}
    shift 2
    ;;
  -*) bad_argument "$1" ;;
esac
[[ $# -ge 1 ]] || usage 64
out=$1
shift
[[ $out == *.tar.gz || $out == *.tar.xz ]] || die "'$out': expected a name that ends in .tar.gz or .tar.xz"
[[ -d $build ]] || die "no $build: run scripts/build.sh first"
programs=("$@")
if [[ ${#programs[@]} -eq 0 ]]; then
  mapfile -t programs < <(find "$build" -maxdepth 1 -type f -executable ! -name '*.so' -printf '%f\n' | sort)
fi
[[ ${#programs[@]} -gt 0 ]] || die "no programs in $build"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/build/lib"
for program in "${programs[@]}"; do
  [[ -x $build/$program ]] || die "no $build/$program"
  strip -o "$work/build/$program" "$build/$program"
  # Leaves out LibTorch's libraries and the libraries of the system's C and C++ compilers.
  ldd "$build/$program" | awk '$2 == "=>" && $3 ~ "^/(usr/)?lib" &&
    $1 !~ /^lib(c|m|dl|rt|pthread|util|stdc[+][+]|gcc_s|cuda)[.]so/ {print $3}' |
    xargs -r cp -Lnt "$work/build/lib"
done
# Contents that programs share are about 64 MiB apart in the archive.
XZ_OPT='--lzma2=preset=3,dict=160MiB' tar -C "$work" -caf "$out" build
echo "bundle: $out, $(du -h "$out" | cut -f 1): ${#programs[@]} programs; $(find "$work/build/lib" -type f -printf '%f ' | sort)"
