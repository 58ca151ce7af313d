#pragma once
// Text files in, training and validation shards out: what the program make_shards does.
#include <cstdint>
#include <string>
#include <vector>

#include "data/document_reader.h"

namespace tg {

struct ShardingOptions {
  std::string tokenizer_path;
  std::string out_dir;
  std::vector<std::string> files;  // "-": standard input
  Separator separator = Separator::file;
  std::int64_t shard_tokens = 100'000'000;
  // The first val_documents documents are the validation split; when 0, every document at which
  // another val_fraction of a document is due, so that they are spread over the input.
  std::int64_t val_documents = 0;
  double val_fraction = 0.05;
  int threads = 1;
  std::string name_prefix = "fineweb";
  bool replace_invalid = false;
  bool force = false;  // replace shards that are there already
};

struct ShardingReport {
  struct Split {
    std::int64_t documents = 0, tokens = 0, text_bytes = 0, shards = 0;
  };
  Split train, val;
};

// Files appear in out_dir only when all are complete and on the disk. A progress line is shown on a
// terminal. Errors: missing_input, bad_data, config, cannot_create, io.
ShardingReport make_shards(const ShardingOptions& options);

// Whether document number `index`, from 0, is of the validation split.
bool is_validation_document(const ShardingOptions& options, std::int64_t index);

}  // namespace tg
