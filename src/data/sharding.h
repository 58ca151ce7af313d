#pragma once
// Writes files of text or of token ids as training and validation shards: implements make_shards.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/token_ids.h"
#include "text/document_reader.h"
#include "text/tokenizer.h"

namespace tg {

struct ShardingOptions {
  std::string tokenizer_path;  // may be empty with from_tokens
  TokenizerChoices choices;    // of the tokenizer
  bool caseops = false;        // encode text with CaseOps (text/caseops.h)
  bool byte_sidecar = false;   // also write the validation split's byte sidecar (data/text_bytes.h)
  std::string out_dir;
  // A folder stands for its text files (text/text_files.h); "-" is standard input.
  std::vector<std::string> files;
  std::string text_key = "text";  // key of the text in JSON objects
  // The files hold token ids (data/token_file.h), below vocab_size if that is not 0. Token ids are
  // not split into documents: shuffling and val_documents apply to text only.
  bool from_tokens = false;
  int vocab_size = 0;
  IntegerType token_type;  // for files that do not declare it
  Separator separator = Separator::file;
  std::int64_t shard_tokens = 100'000'000;
  // Arguments of is_validation_document().
  std::int64_t val_documents = 0;
  double val_fraction = default_val_fraction;
  // Shuffles each split's documents with this seed; nullopt: keeps their order.
  std::optional<std::uint64_t> shuffle_seed;
  int threads = 1;
  std::string name_prefix = "fineweb";
  bool replace_invalid = false;
  bool force = false;       // replace existing shards
  bool own_merges = false;  // accept a vocabulary of another size than GPT-2's
};

struct ShardingReport {
  // documents and text_bytes are 0 with from_tokens.
  struct Split {
    std::int64_t documents = 0, tokens = 0, text_bytes = 0, shards = 0;
  };
  Split train, val;
};

// Runs make_shards. The shards get their names in out_dir only after all are complete and synced.
// Shows a progress line on a terminal. Throws Error(missing_input), Error(bad_data), Error(config),
// Error(cannot_create) and Error(io).
ShardingReport make_shards(const ShardingOptions& options);

}  // namespace tg
