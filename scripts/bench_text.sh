#!/usr/bin/env bash
# usage: scripts/bench_text.sh [--megabytes N] [--rounds N] [--formats zst,gz,xz] [--tokenizer FILE] [--program PATH]
#
# Measures tokenized bytes per second and peak memory of make_shards for JSON lines (1,000 MB) and for the same file
# compressed (.zst), in alternating runs, and checks that the shards are equal. Creates the files in TMPDIR and deletes
# them at the end. Requires an idle machine, build/make_shards and the compressors.
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
