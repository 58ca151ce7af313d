# shellcheck shell=bash
# Sourced after common.sh by the scripts that run build/train_gpt on GPUs. PYTHON (python3) runs their reports; a
# build from another machine uses the libraries of its torch. BUILD_DIR replaces build.

python=${PYTHON:-python3}
build=${BUILD_DIR:-build}

# Flags for a run that only trains, with one warm-up step, and logs every step.
# shellcheck disable=SC2034
train_only=(--warmup-steps 1 --warmdown-iters 0 --val-loss-every 0 --max-wallclock-seconds 0
  --artifact none --eval-stride 0 --ttt-enabled 0 --phased-ttt-enabled 0 --train-log-every 1)

# shellcheck disable=SC2034
mpi=(mpirun --bind-to none --oversubscribe)
[[ $EUID != 0 ]] || mpi+=(--allow-run-as-root)

# Sets $out, the folder for a script's results ($OUT, else logs/ and its name), and $work, which is removed at
# exit.
make_folders() {
  out=${OUT:-logs/$(basename "$0" .sh)}
  mkdir -p "$out"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
}

# require_presets NAME ...: exits if configs/ lacks one of these presets.
require_presets() {
  local preset
  for preset; do
    [[ -f configs/$preset.env ]] || die "no preset '$preset': there is no configs/$preset.env"
  done
}

# reads_documents NAME: true if the preset orders tokens by documents, which synthetic:zipf does not have.
reads_documents() {
  # Not grep -q: that may close the pipe early, and with pipefail the result would be false.
  "$build/train_gpt" inspect --settings "configs/$1.env" | grep -Ex 'LOADER_ORDER=(documents|aligned)' >/dev/null
}

# Prints the GPUs that a program started here sees, one per line, in the form that CUDA_VISIBLE_DEVICES accepts.
visible_gpus() {
  if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
    tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep '^[^-]'
  else
    nvidia-smi -L | sed -n 's/^GPU \([0-9]*\):.*/\1/p'
  fi
}

# A release's build/train_gpt is a script, which finds its libraries itself.
missing_libraries() { ldd "$build/train_gpt" 2>&1 | grep 'not found'; }

# Lets a build from another machine (scripts/bundle.sh) find the LibTorch of this machine's Python.
find_libtorch() {
  local torch
  torch=$("$python" -c \
    'from importlib.util import find_spec as f; print(*f("torch").submodule_search_locations)') ||
    die "$build/train_gpt does not find LibTorch, and $python has no torch"
  LD_LIBRARY_PATH=$(printf '%s:' "$torch/lib" "${torch%/torch}"/nvidia/*/lib)${LD_LIBRARY_PATH-}
  export LD_LIBRARY_PATH
  if missing_libraries; then die "$build/train_gpt lacks these libraries"; fi
}

need_gpu_and_build() {
  have_gpu || die "no GPU here (nvidia-smi -L finds none)"
  [[ -x $build/train_gpt ]] || die "no $build/train_gpt: run scripts/build.sh first"
  if [[ -d $build/lib ]]; then
    LD_LIBRARY_PATH=$(realpath "$build/lib"):${LD_LIBRARY_PATH-}
    export LD_LIBRARY_PATH
  fi
  if missing_libraries >/dev/null; then find_libtorch; fi
}
