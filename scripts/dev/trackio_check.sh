#!/usr/bin/env bash
# usage: scripts/dev/trackio_check.sh
#
# Tests scripts/trackio_import.py with the real trackio package and its store on this machine. The package has an
# environment of its own, .venv-trackio, since it needs other versions than the tests' (40 MB to download, half a
# minute). Requires build/ (or BUILD_DIR).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

case ${1-} in
  -h | --help) usage 0 ;;
  '') ;;
  *) bad_argument "$1" ;;
esac
environment=.venv-trackio
if ! "$environment/bin/python" -c 'import trackio' 2>/dev/null; then
  say "making $environment"
  python3 -m venv "$environment"
  "$environment/bin/python" -m pip install --disable-pip-version-check --quiet trackio==0.43.0
fi
exec "$environment/bin/python" tests/scripts/trackio_import_test.py
