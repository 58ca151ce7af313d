#pragma once
// Opens the data that DATA_PATH names:
//   synthetic:zipf            random tokens (data/synthetic_tokens.h), drawn by SEED
//   synthetic:documents       random tokens in documents
//   a file .txt, .jsonl or    text, tokenized during training (data/text_tokens.h)
//     .json, or compressed
//   a folder of such files,   all of them, also in subfolders (text/text_files.h)
//     without shards
//   any other folder          shards, SHARD_PREFIX_{train,val}_*.bin (data/shard.h)
#include <memory>

#include "config/data_config.h"
#include "data/text_tokens.h"
#include "data/vocabulary.h"

namespace tg {

// Every id is a piece of the vocabulary; ids of shards are checked when they are read.
struct TokenSplits {
  std::shared_ptr<const TokenSource> train, val;
  Vocabulary vocabulary;
};

// Options of the tokenization of text.
struct TokenizationOptions {
  int threads = 1;
  OncePerHost once_per_host = once_alone;
};

// Opens the wanted splits; a folder of shards needs no shards of the other one, which is then null,
// and a text no documents of it. Throws Error(usage) for an unknown synthetic:…,
// Error(missing_input) if there is no such file or no shards, Error(config) for text without
// TOKENIZER_PATH, Error(bad_data) for an invalid shard or a file of another kind, and what
// read_vocabulary() throws.
TokenSplits open_splits(const DataConfig& data, int vocab_size,
                        const TokenizationOptions& making = {}, WantedSplits wanted = {});
inline TokenSplits open_training(const DataConfig& data, int vocab_size,
                                 const TokenizationOptions& making = {}) {
  return open_splits(data, vocab_size, making, {.val = false});
}
inline TokenSplits open_validation(const DataConfig& data, int vocab_size,
                                   const TokenizationOptions& making = {}) {
  return open_splits(data, vocab_size, making, {.train = false});
}

}  // namespace tg
