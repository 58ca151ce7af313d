#!/usr/bin/env bash
# usage: scripts/dev/lm_eval_check.sh
#
# Scores an exported model with the real lm-evaluation-harness on small task files, by the line of its model card, and
# compares with `train_gpt eval`. The package has an environment of its own, .venv-lm-eval, which borrows torch and
# transformers of .venv (100 MB to download, a minute). Requires build/ (or BUILD_DIR) and scripts/setup.sh --tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

case ${1-} in
  -h | --help) usage 0 ;;
  '') ;;
  *) bad_argument "$1" ;;
esac
environment=.venv-lm-eval
[[ -x .venv/bin/python ]] || die "no .venv: run scripts/setup.sh --tests first"
if ! "$environment/bin/python" -c 'import lm_eval' 2>/dev/null; then
  say "making $environment"
  python3 -m venv "$environment"
  "$environment/bin/python" -m pip install --disable-pip-version-check --quiet --no-deps accelerate==1.15.0 psutil
  "$environment/bin/python" -m pip install --disable-pip-version-check --quiet lm_eval==0.4.13
  # Behind its own packages: torch, transformers and what they need.
  realpath .venv/lib/python3*/site-packages >"$(echo "$environment"/lib/python3*/site-packages)/borrowed.pth"
fi
exec "$environment/bin/python" tests/scripts/lm_eval_test.py
