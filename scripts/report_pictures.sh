#!/usr/bin/env bash
# usage: scripts/report_pictures.sh RUN...
#
# The pictures of docs/report.md: a report of these runs' folders as chromium draws it, 1,280 pixels wide in
# light and in dark (docs/report_light.png, docs/report_dark.png), and 400 wide (docs/report_narrow.png). Needs
# build/train_gpt and chromium.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

case ${1-} in -h | --help) usage 0 ;; "") usage 64 >&2 ;; -*) bad_argument "$1" ;; esac
[[ -x build/train_gpt ]] || die "no build/train_gpt: run scripts/build.sh first"
command -v chromium >/dev/null || die "no chromium: install it, on Debian with apt-get install chromium"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build/train_gpt report "$@" --out "$work/report.html"

# picture NAME WIDTH HEIGHT SCHEME (0: dark, 1: light)
picture() {
  chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
    --virtual-time-budget=2000 --window-size="$2,$3" --blink-settings=preferredColorScheme="$4" \
    --screenshot="$PWD/docs/$1.png" "file://$work/report.html" 2>"$work/chromium.txt" ||
    die "chromium failed: $(tail -n 1 "$work/chromium.txt")"
  say "docs/$1.png: $(stat -c %s "docs/$1.png") bytes"
}
picture report_light 1280 1180 1
picture report_dark 1280 1180 0
picture report_narrow 400 1180 1
