#!/usr/bin/env bash
# usage: scripts/launch.sh [-n RANKS] [--restarts N] [TRAIN_GPT_FLAG ...]
#
# Trains with several ranks on this machine: one per GPU, or RANKS on the CPUs if there is no GPU.
#   -n RANKS      number of ranks (default: all GPUs in CUDA_VISIBLE_DEVICES; 1 on CPUs)
#   --restarts N  restarts at most N times (default: 0) after exit codes 69 and 75 and after a rank was killed by a
#                 signal (128+n). A restart resumes from the newest checkpoint (RESUME=auto). Unless RUN_ID or
#                 OUTPUT_DIR is set, all starts use one generated RUN_ID.
#
# Settings come from flags, the environment and --config FILE, as for build/train_gpt:
#   scripts/launch.sh --config configs/record.env
#   CUDA_VISIBLE_DEVICES=0,1 scripts/launch.sh --config configs/quickstart_gpu.env
#   DEVICE=cpu scripts/launch.sh -n 4 --config configs/quickstart.env
#
# SIGTERM, SIGINT, SIGHUP and SIGUSR1 are forwarded to every rank as SIGUSR1: the ranks finish the step, save a
# checkpoint and exit; launch.sh then exits with 75 and does not restart them. A second signal stops the ranks at
# once.
#
# BUILD_DIR (default: build) is the build folder of train_gpt. The exit status is the one of the rank that failed first
# (docs/faults.md). For several machines see docs/distributed.md.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/common.sh
source "$root/scripts/common.sh"

# stop STATUS MESSAGE: like die, with an exit status of docs/faults.md.
stop() {
  printf 'ERROR %s: %s\n' "$(basename "$0")" "$2" >&2
  exit "$1"
}

ranks=
restarts=0
while :; do
  case ${1-} in
    -h | --help) usage 0 ;;
    -n)
      [[ ${2-} =~ ^[1-9][0-9]{0,3}$ ]] || stop 64 "-n \"${2-}\": expected a number of ranks from 1 on"
      ranks=$2
      ;;
    --restarts)
      [[ ${2-} =~ ^(0|[1-9][0-9]{0,5})$ ]] || stop 64 "--restarts \"${2-}\": expected a number from 0 on"
      restarts=$2
      ;;
    *) break ;;
  esac
  shift 2
done

job=     # mpirun's process id, while it runs
told=0 # signals received
passed=0 # signals forwarded

# Prints the process ids of the ranks that mpirun, the leader of session $1, has started, without those that it has only
# forked or that have ended.
pids_of_ranks() {
  cat /proc/[0-9]*/stat 2>/dev/null | sed -n "s/^\([0-9]*\) (train_gpt) [^ZX] [0-9]* [0-9]* $1 .*/\1/p"
}

await_ranks() {
  local tries=100
  while ((tries-- > 0)) && kill -0 "$job" 2>/dev/null && (($(pids_of_ranks "$job" | wc -l) < ranks)); do sleep 0.1; done
}

# Signals the ranks directly: mpirun dies of a signal in its first moments, and not every mpirun forwards SIGUSR1.
# `told` may grow during any command here.
pass_on() {
  local pids
  while ((passed < told && ++passed)); do
    await_ranks
    mapfile -t pids < <(pids_of_ranks "$job")
    kill -USR1 "${pids[@]:-$job}" 2>/dev/null || true
  done
}

trap '((++told)); if [[ -n $job ]]; then pass_on; fi' TERM INT HUP USR1

program=${BUILD_DIR:-$root/build}/train_gpt
[[ -x $program ]] || stop 66 "no $program: run scripts/build.sh, or set BUILD_DIR to where it was built"
[[ -x $(command -v mpirun) ]] || stop 66 "no mpirun: run scripts/setup.sh, or install openmpi-bin"

# Counts the GPUs that train_gpt can use: those supported by the build, within CUDA_VISIBLE_DEVICES.
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

# Orders ranks by GPU, with as many ranks on each NUMA node as it has GPUs. The system places them if the user
# chose GPUs, or if the machine or its container cannot bind.
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

as=(--mca plm isolated) # starts nothing on other hosts, so ssh is not needed
if [[ $(id -u) == 0 ]]; then as+=(--allow-run-as-root); fi
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

# True if the environment, a flag or a --config file sets RUN_ID or OUTPUT_DIR.
names_run() {
  local argument file previous=
  [[ -z ${RUN_ID-}${OUTPUT_DIR-} && ! " $* " =~ \ --(run-id|output-dir)[\ =] ]] || return 0
  for argument; do
    file=${argument#--config=}
    if [[ $previous == --config || $file != "$argument" ]] &&
      grep -qsE "^\s*(RUN_ID|OUTPUT_DIR)\s*=\s*['\"]?[^'\"#[:space:]]" "$file"; then
      return 0
    fi
    previous=$argument
  done
  return 1
}

# Starts the ranks and waits for them; sets status.
train() {
  # A separate session, so that the terminal's Ctrl-C does not reach mpirun, which would stop the ranks within a
  # second. A SIGKILL of this script also kills mpirun: ranks without a launcher save and stop. --quiet: the failed
  # rank's own message says more than mpirun's.
  setsid setpriv --pdeathsig KILL mpirun --quiet "${as[@]}" "${place[@]}" -np "$ranks" "$program" "$@" </dev/null &
  job=$!
  pass_on
  local before=
  until [[ $before == "$told" ]]; do # a signal interrupts wait; waiting again returns the status
    before=$told status=0
    wait "$job" 2>/dev/null || status=$? # without Bash's line of a killed mpirun
  done
  local session=$job
  job=
  # Ranks whose mpirun was killed save before they stop. The next start needs their folder and their GPUs. A second
  # signal ends the waiting.
  while ((told < 2)) && [[ -n $(pids_of_ranks "$session") ]]; do sleep 0.1; done
}

may_start_again() { ((status == 69 || status == 75 || (status > 128 && status <= 192))); }

if ((restarts > 0)) && ! names_run "$@"; then
  RUN_ID=$(</proc/sys/kernel/random/uuid)
  export RUN_ID
  echo "$(basename "$0"): RUN_ID=$RUN_ID for all starts of this run" >&2
fi
status=75
for ((try = 1; told == 0; ++try)); do
  train "$@"
  if ((told > 0 || try > restarts)) || ! may_start_again; then break; fi
  echo "$(basename "$0"): the run ended with exit code $status; starting it again ($try of $restarts)" >&2
done
# A rank that has not yet installed its SIGUSR1 handler dies of the signal and saves nothing.
if ((told == 1 && status == 138)); then status=75; fi
exit "$status"
