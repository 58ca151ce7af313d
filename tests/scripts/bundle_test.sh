#!/usr/bin/env bash
# usage: bundle_test.sh BUILD_DIR
#
# A bundled program runs from where it was unpacked, with the libraries that came along.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/programs"
cp "$1/make_shards" /bin/true "$work/programs" # one that loads no such library
scripts/bundle.sh --build "$work/programs" "$work/bundle.tar.gz"
tar -C "$work" -xzf "$work/bundle.tar.gz"
cd "$work"
run=(env -i LD_LIBRARY_PATH=build/lib)
"${run[@]}" ldd build/make_shards >libraries
grep -q '=> build/lib/libsentencepiece\.so' libraries || { echo "not its own library:" && cat libraries && exit 1; }
[[ ! -e build/lib/libc.so.6 && ! -e build/lib/libstdc++.so.6 ]]
"${run[@]}" build/make_shards --help >/dev/null
"${run[@]}" build/true

status=0
message=$("$OLDPWD/scripts/bundle.sh" --build "$1" "$work/none.tar.gz" no_such_program 2>&1) || status=$?
[[ $status == 1 && $message == *"no $1/no_such_program"* && ! -e $work/none.tar.gz ]] ||
  { echo "exited $status and said: $message" && exit 1; }
