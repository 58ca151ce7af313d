#!/usr/bin/env bash
# usage: scripts/dev/lint.sh [format|shell|docker|layers|fix]
#
# The checks that need no build; all of them without an argument. fix reformats the C++ in place.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

need() {
  [[ -x $(command -v "$1") ]] || die "no $1: run scripts/setup.sh --tests first"
}
format() {
  need .venv/bin/clang-format
  find src tests -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' |
    LC_ALL=C sort | xargs -r .venv/bin/clang-format --style=file "$@"
}
check_format() { format --dry-run -Werror; }
check_shell() {
  need shellcheck
  shellcheck -x scripts/*.sh scripts/dev/*.sh .ci/run tests/scripts/*.sh
}
check_docker() {
  need .venv/bin/hadolint
  .venv/bin/hadolint Dockerfile
}
check_layers() { python3 scripts/dev/check_layers.py; }

case ${1-all} in
  format | shell | docker | layers) "check_$1" ;;
  fix) format -i ;;
  all)
    check_layers
    check_format
    check_shell
    check_docker
    ;;
  -h | --help) usage 0 ;;
  *) bad_argument "$1" ;;
esac
