#!/usr/bin/env bash
# usage: scripts/dev/package_check.sh trackio|lm_eval
#
# Runs the tests that need a package in an environment of its own, because it needs other versions than the tests:
#   trackio  runs that scripts/trackio_import.py follows, in the package's store on this machine (40 MB to download,
#            half a minute)
#   lm_eval  an exported model, scored by lm-evaluation-harness with the line of its model card and by `train_gpt eval`
#            (100 MB, a minute); borrows torch and transformers of .venv (scripts/setup.sh --tests)
# The environment is .venv-PACKAGE. Requires build/ (or BUILD_DIR).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

case ${1-} in
  -h | --help) usage 0 ;;
  trackio) test=trackio_import_test wheels=(trackio==0.43.0) ;;
  lm_eval) test=lm_eval_test wheels=(lm_eval==0.4.13) ;;
  *) bad_argument "${1-}" ;;
esac
environment=.venv-$1
[[ -x .venv/bin/python ]] || die "no .venv: run scripts/setup.sh --tests first"
install() { "$environment/bin/python" -m pip install --disable-pip-version-check --quiet "$@"; }
if ! "$environment/bin/python" -c "import $1" 2>/dev/null; then
  say "making $environment"
  python3 -m venv "$environment"
  install "${wheels[@]}"
  if [[ $1 == lm_eval ]]; then
    install --no-deps accelerate==1.15.0 psutil
    # Behind its own packages, and after pip is done, which would change them: torch, transformers and what they need.
    realpath .venv/lib/python3*/site-packages >"$(echo "$environment"/lib/python3*/site-packages)/borrowed.pth"
  fi
fi
exec "$environment/bin/python" "tests/scripts/$test.py"
