#pragma once
// The values of DATA_PATH:
//   synthetic:zipf            random tokens (data/synthetic_tokens.h), drawn by SEED
//   synthetic:documents       the same in documents
//   a file .txt, .jsonl or    text, tokenised while training runs (data/text_tokens.h)
//     .json, also packed
//   a folder of such files,   all of them, those of subfolders too (text/text_files.h)
//     without shards
//   any other folder          shards, SHARD_PREFIX_{train,val}_*.bin (data/shard.h)
#include <memory>

#include "config/data_config.h"
#include "data/shared_tokens.h"
#include "data/token_source.h"
#include "data/vocabulary.h"

namespace tg {

// Every id is a piece of the vocabulary; those of shards are checked as they are read.
struct TokenSplits {
  std::shared_ptr<const TokenSource> train, val;
  Vocabulary vocabulary;
};

// How text is tokenised.
struct TextMaking {
  int threads = 1;
  OncePerHost once_per_host = once_alone;
};

// Errors: usage (another synthetic:…), missing_input (no such file, no shards), config (text
// without a TOKENIZER_PATH), bad_data (a broken shard; a file of another kind); those of
// read_vocabulary().
TokenSplits open_splits(const DataConfig& data, int vocab_size, const TextMaking& making = {});
// The training split: a folder of shards needs none for validation, and `val` is null; a text needs
// no document for it.
TokenSplits open_training(const DataConfig& data, int vocab_size, const TextMaking& making = {});
// The validation split: a folder of shards needs none for training, and `train` is null.
TokenSplits open_validation(const DataConfig& data, int vocab_size, const TextMaking& making = {});

}  // namespace tg
