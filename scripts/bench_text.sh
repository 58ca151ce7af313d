#!/usr/bin/env bash
# usage: scripts/bench_text.sh [--megabytes N] [--rounds N] [--formats zst,gz,xz] [--tokenizer FILE] [--program PATH]
#
# Text tokenised a second and peak memory of make_shards on JSON lines (1,000 MB) and on the same file packed
# (.zst), taken in turns, which must give the same shards. The files are made in TMPDIR and deleted at
# the end. Needs an idle machine, build/make_shards and the packers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

case ${1-} in -h | --help) usage 0 ;; esac
[[ -x build/make_shards || " $* " == *" --program"* ]] ||
  die "no build/make_shards: run scripts/build.sh first"
command -v zstd >/dev/null || die "no zstd: install the package of that name"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 tests/bench/bench_text.py "$@" "$work"
