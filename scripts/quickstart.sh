#!/usr/bin/env bash
# usage: scripts/quickstart.sh [TRAIN_GPT_FLAG ...]
#
# From a bare machine to a trained GPT: sets up, builds, unpacks the Python documentation as English text (11 MB; with
# a GPU also 77 MB from other packages), trains a 1,024-piece tokenizer on it, writes shards, and trains a model. All
# files are in data/quickstart/ and logs/. Later calls skip finished stages but always train. Training runs a fixed
# number of steps, gives the same model on any machine, and stops after one hour at most; after a tenth of the steps it
# prints the expected time. Flags go to train_gpt, for example: --iterations 50. SETUP=0 installs and builds nothing
# and uses build/ as it is, for example one from another machine. MORE_TEXT=1 takes the other packages' text without a
# GPU as well.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

case ${1-} in -h | --help) usage 0 ;; esac

data=data/quickstart
config=configs/quickstart.env
if have_gpu; then config=configs/quickstart_gpu.env; fi

# Each stage writes to $data/partial, and renames its result when it is complete.
begin_stage() {
  say "$1"
  rm -rf "$data/partial"
  mkdir -p "$data/partial"
}

# More text for a GPU: on the Python documentation alone, its one minute is enough epochs to memorize the text.
# Packages with documentation as plain text, the largest first.
more_packages=(
  linux-doc vim-runtime perl-doc llvm-14-doc python-sqlalchemy-doc dpdk-doc python-pandas-doc git-doc
  cmake-doc clang-14-doc numba-doc cinder-doc buildbot-doc nova-doc manila-doc openvswitch-doc
  python-celery-doc twisted-doc ironic-doc swift-doc pypy3-doc sphinx-doc pylint-doc
)
# Number of copies of the Python documentation, which the validation set comes from, in one epoch of that text.
python_copies=${PYTHON_COPIES:-4}

# unpack PACKAGE...: extracts their files to $data/partial/files. A package that only depends on a versioned one
# (python3-doc on python3.11-doc) is replaced by that. Downloads and extracts without installing, because container
# images drop /usr/share/doc at install.
unpack() {
  local known package versioned found=() sandbox=()
  mkdir "$data/partial/files"
  known=$(LC_ALL=C apt-cache depends "$@" 2>/dev/null) || return 0
  for package; do
    versioned=$(sed -n "s/^  Depends: \(${package%-doc}[.0-9]*-doc[-.0-9]*\)$/\1/p" <<<"$known")
    if grep -qx "$package" <<<"$known"; then
      found+=("${versioned:-$package}")
    else
      echo "skipped $package: apt does not have it"
    fi
  done
  # As root, apt would download as another user, who may not write here.
  if [[ $(id -u) == 0 ]]; then sandbox=(-o APT::Sandbox::User=root); fi
  (
    cd "$data/partial"
    apt-get download -qq "${sandbox[@]}" "${found[@]}" || echo "skipped packages that apt could not download"
    find . -name '*.deb' -print0 | xargs -0 -r -P "$(nproc)" -I '{}' dpkg-deb -x '{}' files
  )
}

fetch_text() {
  local sources
  begin_stage "text: the Python documentation's sources, from a Debian package"
  [[ -n $(apt-cache search --names-only '^python3-doc$') ]] || as_root apt-get update -q
  unpack python3-doc
  sources=$(find "$data/partial/files" -type d -name _sources)
  [[ -n $sources ]] || die "apt has no package python3-doc; put text files into $data/text instead"
  mv "$sources" "$data/text"
}

fetch_more_text() {
  local files="$data/partial/files"
  begin_stage "more text: documentation from ${#more_packages[@]} other packages"
  unpack "${more_packages[@]}"
  # Excludes other file types, stubs, translations, and 3 MB of tables for GPU assemblers.
  find "$files" ! -type d ! \( -type f -size +1k \( -name '*.txt' -o -name '*.rst' -o -name '*.pod' \) \
    ! -path '*/translations/*' ! -name 'AMDGPU*' ! -path '*/AMDGPU/*' \) -delete
  near_copies "$files" >"$data/partial/copies"
  xargs -r -d '\n' rm <"$data/partial/copies"
  echo "removed $(wc -l <"$data/partial/copies") near copies of validation documents"
  find "$files" -type d -empty -delete
  # Without any file the folder is missing, and the next run tries again.
  if [[ -d $files ]]; then mv "$files" "$data/more_text"; fi
}

# Prints the files of a folder in which over a twentieth of the long lines are from validation documents.
near_copies() {
  awk '
    function next_line() {
      while ((getline line < $0) > 0) {
        gsub(/^[ \t]+|[ \t]+$/, "", line)
        if (length(line) >= 40 && line ~ /[a-z] [a-z]/) return 1
      }
      close($0)
      return 0
    }
    NR == FNR { while (next_line()) validation[line]; next }
    {
      for (lines = copied = 0; next_line(); ++lines) copied += line in validation
      if (20 * copied > lines) print
    }' <(list_validation) <(find "$1" -type f)
}

# Prints one document per line, one per file, in a fixed shuffled order, so that every part of training has all
# kinds of pages.
list_text() {
  find "$data/text" -type f -name '*.txt' | LC_ALL=C sort | shuf --random-source=<(yes)
}

# Selects the same documents on every machine, so that scores can be compared.
list_validation() { list_text | awk 'NR % 20 == 0'; }

list_training() {
  local copy
  if [[ -d $data/more_text ]]; then
    for ((copy = 0; copy < python_copies; ++copy)); do list_text | awk 'NR % 20'; done |
      cat - <(find "$data/more_text" -type f | LC_ALL=C sort) |
      nl | LC_ALL=C sort -R --random-source=<(yes) | cut -f 2
  else
    list_text | awk 'NR % 20'
  fi
}

train_tokenizer() {
  begin_stage "tokenizer: 1,024 pieces, byte-pair encoding"
  list_text | xargs -d '\n' cat >"$data/partial/all.txt"
  # Identity normalization keeps every byte, so that bits per byte count the original text.
  spm_train --input="$data/partial/all.txt" --model_prefix="$data/partial/tokenizer" \
    --model_type=bpe --vocab_size=1024 --byte_fallback=true --character_coverage=0.9995 \
    --split_digits=true --normalization_rule_name=identity --remove_extra_whitespaces=false \
    --input_sentence_size=500000 --num_threads="$(nproc)" --minloglevel=1
  mv "$data/partial/tokenizer.model" "$data/tokenizer.model"
}

list_documents() { list_validation && list_training; }

write_shards() {
  local documents
  begin_stage "shards: a twentieth of the Python documentation for validation, the rest for training"
  list_documents >"$data/partial/documents.txt"
  mapfile -t documents <"$data/partial/documents.txt"
  build/make_shards --tokenizer "$data/tokenizer.model" --out "$data/partial/shards" \
    --val-documents "$(list_validation | wc -l)" --threads "$(nproc)" --baselines "${documents[@]}" |
    tee "$data/partial/make_shards.txt"
  rm -rf "$data/shards"
  mv "$data/partial/make_shards.txt" "$data/partial/documents.txt" "$data/partial/shards" "$data/"
}

if [[ ${SETUP-1} != 0 ]]; then
  scripts/setup.sh
  scripts/build.sh
fi
SECONDS=0
[[ -d $data/text ]] || fetch_text
if [[ ! -d $data/more_text ]] && { [[ ${MORE_TEXT-} == 1 ]] || have_gpu; }; then fetch_more_text; fi
[[ -f $data/tokenizer.model ]] || train_tokenizer
# Writes the shards again if the documents have changed: with a GPU there is more text.
if [[ ! -d $data/shards ]] || ! list_documents | cmp -s - "$data/documents.txt"; then write_shards; fi
rm -rf "$data/partial"

steps=$(sed -n 's/^ITERATIONS=//p' "$config")
say "training: $config, $steps steps by default"
RUN_ID=${RUN_ID:-quickstart-$(date +%Y%m%d-%H%M%S)}
export RUN_ID
# The time limit is a safety net: SCHEDULE_ITERATIONS keeps the schedule independent of it, as if ITERATIONS were
# given.
if [[ -z ${ITERATIONS-} && " $*" != *" --iterations"* ]]; then
  export SCHEDULE_ITERATIONS=$steps MAX_WALLCLOCK_SECONDS=${MAX_WALLCLOCK_SECONDS:-3600}
fi
status=0
build/train_gpt --config "$config" "$@" || status=$?
if [[ $status == 75 ]]; then printf '\nThis goes on: RUN_ID=%s scripts/quickstart.sh %s\n' "$RUN_ID" "$*"; fi
if [[ $status != 0 ]]; then exit "$status"; fi

say "done, $SECONDS s after set-up and build"
grep '^baseline ' "$data/make_shards.txt"
log=logs/$RUN_ID/log.txt
# said LINE: prints the score on the log's last line that begins with LINE.
said() { sed -nE "s/^$1 .*(val_bpb:[0-9.]+).*/\1/p" "$log" 2>/dev/null | tail -n 1; }
raw=$(said 'DIAGNOSTIC post_ema') packed=$(said final_int6_roundtrip)
size=$(sed -n 's/^Total submission size int6+lzma: //p' "$log" 2>/dev/null | tail -n 1)
echo "this model ${raw:-(its val_bpb is above)}"
bigram=$(sed -n 's/^baseline token_bigram //p' "$data/make_shards.txt")
if [[ -n $raw ]] && awk "BEGIN { exit !(${raw#*:} >= ${bigram#*:}) }"; then
  printf '\nIt needs more training: the bigram, which only counts pairs of tokens, is better. To continue training:\n'
  printf '  scripts/quickstart.sh --init-from logs/%s\n\n' "$RUN_ID"
fi
if [[ -n $packed ]]; then
  echo "the same from its artifact $packed, ${size% bytes} bytes with the code, of 16000000 allowed"
  printf '\nIt continues a text (build/train_gpt sample --help):\n'
  build/train_gpt sample --init-from "logs/$RUN_ID/final_model.int6.ptz" --prompt "The module" --tokens 40 2>/dev/null ||
    true
fi
cat <<END

Bits per byte of validation text, after the same training text: lower is better.
  results    logs/$RUN_ID/ (final_model.safetensors, final_model.pt, final_model.int6.ptz,
             metrics.jsonl, config.json)
  shards     $data/shards/, tokenizer $data/tokenizer.model
  next       build/train_gpt --help; other presets in configs/; your own text: README.md
END
