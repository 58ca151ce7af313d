#!/usr/bin/env bash
# usage: scripts/quickstart.sh [TRAIN_GPT_FLAG ...]
#
# From a bare machine to a trained GPT: sets up, builds, unpacks the Python documentation as
# English text (11 MB), trains a 1,024-piece tokenizer on it, writes shards, and trains a model.
# Everything lands in data/quickstart/ and logs/. Finished stages are skipped the next time; the
# training itself always runs. Flags go to train_gpt, for example: --iterations 50
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

case ${1-} in -h | --help) usage 0 ;; esac

data=data/quickstart
config=configs/quickstart.env
if have_gpu; then config=configs/quickstart_gpu.env; fi

# Each stage writes to $data/partial, and its result gets its name when it is whole.
begin_stage() {
  say "$1"
  rm -rf "$data/partial"
  mkdir -p "$data/partial"
}

fetch_text() {
  local package
  begin_stage "text: the Python documentation's sources, from a Debian package"
  # Downloaded and unpacked, not installed: container images drop /usr/share/doc at install.
  [[ -n $(apt-cache search --names-only '^python3-doc$') ]] || as_root apt-get update -q
  package=$(LC_ALL=C apt-cache depends python3-doc | sed -n 's/.*Depends: \(python3\.[0-9]*-doc\)$/\1/p')
  [[ -n $package ]] || die "apt knows no package python3-doc; put text files into $data/text instead"
  (
    cd "$data/partial"
    sandbox=()
    # Root's apt would download as a user who may not write here.
    if [[ $(id -u) == 0 ]]; then sandbox=(-o APT::Sandbox::User=root); fi
    apt-get download -q "${sandbox[@]}" "$package"
    dpkg-deb -x "$package"_*.deb .
  )
  mv "$(find "$data/partial" -type d -name _sources)" "$data/text"
}

# One document a file. Shuffled, always in the same way, so that every stretch of training sees all
# kinds of pages.
list_text() {
  find "$data/text" -type f -name '*.txt' | LC_ALL=C sort | shuf --random-source=<(yes)
}

train_tokenizer() {
  begin_stage "tokenizer: 1,024 pieces, byte-pair encoding"
  list_text | xargs -d '\n' cat >"$data/partial/all.txt"
  # Identity normalisation keeps every byte, so that bits per byte count the text as it is.
  spm_train --input="$data/partial/all.txt" --model_prefix="$data/partial/tokenizer" \
    --model_type=bpe --vocab_size=1024 --byte_fallback=true --character_coverage=0.9995 \
    --split_digits=true --normalization_rule_name=identity --remove_extra_whitespaces=false \
    --input_sentence_size=500000 --num_threads="$(nproc)" --minloglevel=1
  mv "$data/partial/tokenizer.model" "$data/tokenizer.model"
}

write_shards() {
  local files
  begin_stage "shards: 95% training, 5% validation"
  mapfile -t files < <(list_text)
  build/make_shards --tokenizer "$data/tokenizer.model" --out "$data/partial/shards" \
    --val-fraction 0.05 --threads "$(nproc)" --baselines "${files[@]}" |
    tee "$data/partial/make_shards.txt"
  mv "$data/partial/make_shards.txt" "$data/make_shards.txt"
  mv "$data/partial/shards" "$data/shards"
}

scripts/setup.sh
scripts/build.sh
SECONDS=0
[[ -d $data/text ]] || fetch_text
[[ -f $data/tokenizer.model ]] || train_tokenizer
[[ -d $data/shards ]] || write_shards
rm -rf "$data/partial"

say "training: $config"
RUN_ID=${RUN_ID:-quickstart-$(date +%Y%m%d-%H%M%S)}
export RUN_ID
build/train_gpt --config "$config" "$@"

say "done, $SECONDS s after set-up and build"
grep '^baseline ' "$data/make_shards.txt"
score=$(grep -o 'val_bpb:[0-9.]*' "logs/$RUN_ID/log.txt" 2>/dev/null | tail -n 1) || score=
echo "this model ${score:-(its val_bpb is above)}"
cat <<END

Bits per byte of text that was not trained on: lower is better.
  results    logs/$RUN_ID/ (final_model.safetensors, final_model.pt, metrics.jsonl, config.json)
  shards     $data/shards/, tokenizer $data/tokenizer.model
  next       build/train_gpt --help; other presets in configs/; your own text: README.md
END
