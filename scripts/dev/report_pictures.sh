#!/usr/bin/env bash
# usage: scripts/dev/report_pictures.sh RUN...
#
# Takes the screenshots of docs/report.md with chromium: the report of the first run (docs/report_run.png), and the
# report of all runs at a width of 1,280 pixels in light and in dark (docs/report_light.png, docs/report_dark.png) and
# at 400 (docs/report_narrow.png). Requires build/train_gpt and chromium.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

case ${1-} in -h | --help) usage 0 ;; "") usage 64 >&2 ;; -*) bad_argument "$1" ;; esac
[[ -x build/train_gpt ]] || die "no build/train_gpt: run scripts/build.sh first"
command -v chromium >/dev/null || die "no chromium: install it, on Debian with apt-get install chromium"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build/train_gpt report "$1" --out "$work/run.html"
build/train_gpt report "$@" --out "$work/all.html"

# picture NAME PAGE WIDTH HEIGHT SCHEME (0: dark, 1: light)
picture() {
  chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
    --virtual-time-budget=2000 --window-size="$3,$4" --blink-settings=preferredColorScheme="$5" \
    --screenshot="$PWD/docs/$1.png" "file://$work/$2.html" 2>"$work/chromium.txt" ||
    die "chromium failed: $(tail -n 1 "$work/chromium.txt")"
  say "docs/$1.png: $(stat -c %s "docs/$1.png") bytes"
}
picture report_run run 1280 2400 1
picture report_light all 1280 1180 1
picture report_dark all 1280 1180 0
picture report_narrow all 400 1180 1
