#pragma once
// Writes files of text or of token ids as training and validation shards: the work of the program
// make_shards.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/token_ids.h"
#include "text/document_reader.h"
#include "text/document_split.h"

namespace tg {

struct ShardingOptions {
  std::string tokenizer_path;  // with from_tokens it may be empty
  bool caseops = false;        // the tokenizer's text is text/caseops.h's
  bool byte_sidecar = false;   // also data/text_bytes.h's files of the validation split; of text
  std::string out_dir;
  // Folders stand for the text in them (text/text_files.h); "-": standard input.
  std::vector<std::string> files;
  std::string text_key = "text";  // of JSON's objects
  // The files hold token ids (data/token_files.h), below vocab_size if that is not 0, which are no
  // documents: shuffling and val_documents are for text.
  bool from_tokens = false;
  int vocab_size = 0;
  IntegerType token_type;  // of ids in files that do not say it
  Separator separator = Separator::file;
  std::int64_t shard_tokens = 100'000'000;
  // Arguments of is_validation_document().
  std::int64_t val_documents = 0;
  double val_fraction = default_val_fraction;
  // Each split's documents in an order that this seed determines; empty: in the order of the text.
  std::optional<std::uint64_t> shuffle_seed;
  int threads = 1;
  std::string name_prefix = "fineweb";
  bool replace_invalid = false;
  bool force = false;       // replace existing shards
  bool own_merges = false;  // a merge list or table of another size than GPT-2's
};

struct ShardingReport {
  struct Split {
    std::int64_t documents = 0, tokens = 0, text_bytes = 0, shards = 0;  // of tokens: two are 0
  };
  Split train, val;
};

// The shards get their names in out_dir only after all are complete and synced. Shows a progress
// line on a terminal. Errors: missing_input, bad_data, config, cannot_create, io.
ShardingReport make_shards(const ShardingOptions& options);

}  // namespace tg
