#!/usr/bin/env bash
# usage: install_test.sh BUILD_DIR
#
# What `cmake --install` puts elsewhere must run, from elsewhere, and name its libraries.
set -euo pipefail

prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$1" --prefix "$prefix" >/dev/null
cd /
env -u LD_LIBRARY_PATH "$prefix/bin/train_gpt" --version | tee "$prefix/version"
grep -q '2\.11\.0' "$prefix/version"
env -u LD_LIBRARY_PATH "$prefix/bin/make_shards" --help >/dev/null
test -f "$prefix/share/train_gpt/configs/quickstart.env"
