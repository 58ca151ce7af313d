#!/usr/bin/env bash
# usage: scripts/launch.sh [-n RANKS] [TRAIN_GPT_FLAG ...]
#
# Trains with several ranks on this machine: one on each GPU, or, without GPUs, RANKS on its CPUs.
#   -n RANKS  how many (default: all GPUs in CUDA_VISIBLE_DEVICES; 1 on CPUs)
#
# Settings come from flags, the environment and --config FILE, as for build/train_gpt:
#   scripts/launch.sh --config configs/record.env
#   CUDA_VISIBLE_DEVICES=0,1 scripts/launch.sh --config configs/quickstart_gpu.env
#   DEVICE=cpu scripts/launch.sh -n 4 --config configs/quickstart.env
#
# BUILD_DIR (default: build) is where train_gpt was built. The exit status is that of the rank that
# failed first (docs/faults.md); several machines: docs/distributed.md.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/common.sh
source "$root/scripts/common.sh"

# Like die, with an exit status of docs/faults.md.
stop() {
  printf 'ERROR %s: %s\n' "$(basename "$0")" "$2" >&2
  exit "$1"
}

ranks=
case ${1-} in
  -h | --help) usage 0 ;;
  -n)
    [[ ${2-} =~ ^[1-9][0-9]{0,3}$ ]] || stop 64 "-n \"${2-}\": expected a number of ranks from 1 on"
    ranks=$2
    shift 2
    ;;
esac

program=${BUILD_DIR:-$root/build}/train_gpt
[[ -x $program ]] || stop 66 "no $program: run scripts/build.sh, or set BUILD_DIR to where it was built"
[[ -x $(command -v mpirun) ]] || stop 66 "no mpirun: run scripts/setup.sh, or install openmpi-bin"

# The GPUs that train_gpt uses: those it was built for, within CUDA_VISIBLE_DEVICES.
count_gpus() {
  local names
  if [[ " DEVICE=${DEVICE-} $* " =~ (DEVICE=|--device[ =])cpu\  ]]; then
    echo 0
    return
  fi
  names=$("$program" --version | sed -n 's/^GPUs //p')
  if [[ -z $names || $names == none ]]; then
    echo 0
  else
    awk -F ', ' '{ print NF }' <<<"$names"
  fi
}

# Ranks in the order of their GPUs, as many of them on each NUMA node as it has GPUs. Where the user
# chose GPUs, or the machine or its container cannot bind, the system places them.
gpu_binding() {
  local nodes
  nodes=$(find /sys/devices/system/node -maxdepth 1 -name 'node[0-9]*' 2>/dev/null | wc -l)
  if ((nodes > 1 && gpus % nodes == 0)) && [[ -z ${CUDA_VISIBLE_DEVICES-} ]]; then
    local wish="--map-by ppr:$((gpus / nodes)):numa --bind-to numa"
    # shellcheck disable=SC2086
    if mpirun "${as[@]}" $wish -np "$ranks" true >/dev/null 2>&1; then
      echo "$wish"
      return
    fi
  fi
  echo "--oversubscribe --bind-to none"
}

as=()
if [[ $(id -u) == 0 ]]; then as=(--allow-run-as-root); fi
gpus=$(count_gpus "$@")
if ((gpus > 0)); then
  ranks=${ranks:-$gpus}
  ((ranks <= gpus)) ||
    stop 64 "$ranks ranks need $ranks GPUs, and there is $gpus; use a smaller -n, or DEVICE=cpu"
  read -r -a place <<<"$(gpu_binding)"
else
  ranks=${ranks:-1}
  place=(--oversubscribe --bind-to none)
fi

# --quiet: the failed rank's own line says more than mpirun's message.
exec mpirun --quiet "${as[@]}" "${place[@]}" -np "$ranks" "$program" "$@"
