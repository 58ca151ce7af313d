#!/usr/bin/env bash
# usage: scripts/release.sh VERSION [--build KIND=DIR] [--out FOLDER]
#        scripts/release.sh --stage FOLDER [--build KIND=DIR]
#
# Makes a release in FOLDER (dist): train_gpt-VERSION-KIND-x86_64.tar.gz for the kinds cpu and, where nvcc's wheels are
# installed (scripts/setup.sh --cuda), cuda, and SHA256SUMS. VERSION must be the one of CMakeLists.txt, with its section
# in CHANGELOG.md, and the tree must be committed. --build packs an existing build instead, as that kind. --stage only
# makes the folder that such an archive contains, as for the Dockerfile.
#
# An unpacked archive needs no compiler and no system packages: its build/train_gpt and build/make_shards start the
# programs with the libraries beside them and the LibTorch of a Python that has torch (scripts/release_launcher.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

version='' stage='' out=dist
declare -A builds=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage 0 ;;
    --build)
      [[ ${2-} == ?*=?* ]] || die "--build '${2-}': expected KIND=DIR, such as cpu=build"
      builds[${2%%=*}]=${2#*=}
      shift
      ;;
    --out | --stage)
      [[ -n ${2-} ]] || die "$1 requires a folder"
      if [[ $1 == --out ]]; then out=$2; else stage=$2; fi
      shift
      ;;
    -*) bad_argument "$1" ;;
    *) version=$1 ;;
  esac
  shift
done
known=$(sed -n 's/^project(train_gpt VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

# make_tree BUILD FOLDER: the files of a release; FOLDER must not exist.
make_tree() {
  local build=$1 folder=$2 packed program
  [[ -x $build/train_gpt ]] || die "no $build/train_gpt: run scripts/build.sh first"
  [[ ! -e $folder ]] || die "$folder exists already"
  packed=$(mktemp -d)
  scripts/bundle.sh --build "$build" "$packed/programs.tar.gz" train_gpt make_shards >/dev/null
  tar -C "$packed" -xzf "$packed/programs.tar.gz"
  mkdir -p "$folder/build/libexec" "$folder/scripts" "$folder/data"
  mv "$packed/build/lib" "$folder/build/"
  for program in train_gpt make_shards; do
    mv "$packed/build/$program" "$folder/build/libexec/"
    install -m 755 scripts/release_launcher.sh "$folder/build/$program"
  done
  if [[ -f $build/libtrain_gpt_parquet.so ]]; then cp "$build/libtrain_gpt_parquet.so" "$folder/build/libexec/"; fi
  rm -rf "$packed"
  cp -r configs docs "$folder/"
  cp scripts/launch.sh scripts/common.sh scripts/gpu_common.sh scripts/reproduce_record.sh scripts/compare_record.py \
    scripts/wandb_import.py scripts/trackio_import.py scripts/run_curves.py "$folder/scripts/"
  cp -r data/README.md data/download_fineweb.py data/records "$folder/data/"
  cp README.md CHANGELOG.md LICENSE SECURITY.md "$folder/"
}

if [[ -n $stage ]]; then
  [[ -z $version && ${#builds[@]} -le 1 ]] || die "--stage takes one --build and no VERSION"
  make_tree "${builds[*]:-build}" "$stage"
  exit
fi
[[ -n $version ]] || usage 64 >&2
[[ $version == "$known" ]] || die "version $version: CMakeLists.txt has $known"
grep -q "^## $version\b" CHANGELOG.md || die "version $version: CHANGELOG.md has no section '## $version'"
if [[ ${#builds[@]} -eq 0 ]]; then
  [[ -z $(git status --porcelain) ]] || die "the tree has changes that are not committed: git status"
  kinds=(cpu)
  if compgen -G '.venv/lib/python3*/site-packages/nvidia/cu13/bin/nvcc' >/dev/null; then kinds+=(cuda); fi
  for kind in "${kinds[@]}"; do
    say "building $kind"
    builds[$kind]=build-release-$kind
    cmake -G Ninja -S . -B "build-release-$kind" -DTRAIN_GPT_TESTS=OFF \
      "-DTRAIN_GPT_CUDA=$([[ $kind == cuda ]] && echo ON || echo OFF)"
    cmake --build "build-release-$kind" -j "$(nproc)"
  done
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
for kind in "${!builds[@]}"; do
  name=train_gpt-$version-$kind-x86_64
  make_tree "${builds[$kind]}" "$work/$name"
  # gzip, since a minimal system has no xz.
  tar -C "$work" --owner=0 --group=0 --sort=name -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
  echo "release: $out/$name.tar.gz, $(du -h "$out/$name.tar.gz" | cut -f 1)"
done
(cd "$out" && sha256sum train_gpt-"$version"-*.tar.gz >SHA256SUMS)
echo "release: $out/SHA256SUMS"
