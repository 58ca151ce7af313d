#pragma once
// The values of DATA_PATH:
//   synthetic:zipf            random tokens (data/synthetic_tokens.h), drawn by SEED
//   a file .txt, .jsonl or    text, tokenised while training runs (data/text_tokens.h)
//     .json, also packed
//   a folder of such files,   all of them, those of subfolders too (data/text_files.h)
//     without shards
//   any other folder          shards, fineweb_{train,val}_*.bin (data/shard.h)
#include <memory>

#include "config/data_config.h"
#include "data/token_source.h"

namespace tg {

struct TokenSplits {
  std::shared_ptr<const TokenSource> train, val;
};

// Errors: usage (another synthetic:…), missing_input (no such file, no shards), config (text
// without a TOKENIZER_PATH, or with a tokenizer of another size), bad_data (a broken shard or
// tokenizer; a file of another kind).
TokenSplits open_splits(const DataConfig& data, int vocab_size);
// The validation split alone: a folder of shards needs none for training.
std::shared_ptr<const TokenSource> open_validation(const DataConfig& data, int vocab_size);

}  // namespace tg
