#!/usr/bin/env bash
# usage: release_test.sh BUILD_DIR
#
# A release of a build runs from where it was unpacked, with Python's torch and nothing else of this machine's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/^project(train_gpt VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
python=$PWD/.venv/bin/python
scripts/release.sh "$version" --build "cpu=$1" --out "$work/dist"
(cd "$work/dist" && sha256sum --check --quiet SHA256SUMS)
tar -C "$work" -xf "$work/dist/train_gpt-$version-cpu-x86_64.tar.gz"
cd "$work/train_gpt-$version-cpu-x86_64"
clean=(env -i "PATH=/usr/bin:/bin" "HOME=$work" OMP_NUM_THREADS=1)
run=("${clean[@]}" "PYTHON=$python")
"${run[@]}" build/train_gpt --version | grep -q "^train_gpt ${version//./\\.} commit "
"${run[@]}" build/make_shards --help >/dev/null
ln -s "$PWD/build/train_gpt" "$work/linked"
"${run[@]}" "$work/linked" --config configs/quickstart.env --device cpu --data-path synthetic:zipf --tokenizer-path= \
  --ve-enabled 0 --num-layers 2 --model-dim 64 --train-batch-tokens 1024 --train-seq-len 64 --grad-accum-steps 1 --val-batch-size 1024 \
  --val-tokens 1024 --iterations 2 --warmup-steps 0 --max-wallclock-seconds 0 --artifact none --output-dir "$work/run" >"$work/log"
grep -q '^step:2/2 train_loss:' "$work/log"

# refused STATUS WORDS COMMAND...
refused() {
  local expected=$1 words=$2 status=0 message
  shift 2
  message=$("$@" 2>&1) || status=$?
  [[ $status == "$expected" && $message == *"$words"* ]] || { echo "exited $status and said: $message" && exit 1; }
}
refused 2 "ITERATIONS=2 (the record: 2245)" "${run[@]}" scripts/reproduce_record.sh speedrun_43 --compare "$work/run"
printf '#!/bin/sh\nexec %s -S "$@"\n' "$python" >"$work/python" # without site-packages
chmod +x "$work/python"
refused 69 "no LibTorch in $work/python (expected torch 2.11)" "${clean[@]}" "PYTHON=$work/python" build/train_gpt --version
cd "$OLDPWD"
refused 1 "CMakeLists.txt has $version" scripts/release.sh 99.0.0 --build "cpu=$1" --out "$work/dist"
refused 1 "no $work/train_gpt" scripts/release.sh "$version" --build "cpu=$work" --out "$work/dist"
