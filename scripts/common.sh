# shellcheck shell=bash
# Sourced by the other scripts, which first change to the repository's root.

say() { printf '\n== %s\n' "$*"; }

die() {
  printf 'ERROR %s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# usage STATUS: prints the comment at the top of the calling script, from its second line on, and exits.
usage() {
  sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"
  exit "$1"
}

bad_argument() {
  printf 'ERROR %s: unknown argument "%s"\n' "$(basename "$0")" "$1" >&2
  usage 64 >&2
}

# Splits a script's arguments: those before -- into $own, those after it, for the programs that it runs, into
# $flags.
# shellcheck disable=SC2034
take_flags() {
  own=() flags=()
  while [[ $# -gt 0 && $1 != -- ]]; do
    own+=("$1")
    shift
  done
  [[ $# == 0 ]] || flags=("${@:2}")
}

as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "this needs root, and there is no sudo here; as root, run: $*"
  fi
}

# is_preset NAME: true if CMakePresets.json has a preset of that name.
is_preset() { [[ $1 =~ ^(default|cpu|cuda|asan|tsan|fuzz|libfuzzer)$ ]]; }

have_gpu() { nvidia-smi -L >/dev/null 2>&1; }
