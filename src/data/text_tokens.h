#pragma once
// Text files as tokens without shards: tokenised by threads of their own while training runs. All
// tokens stay in memory, 2 bytes each; for more text than that, make_shards writes them to disk.
#include <memory>
#include <string>
#include <vector>

#include "data/token_source.h"

namespace tg {

// The tokens are those of the shards that make_shards --document-separator blank-line would write:
// documents of a .txt end at an empty line, those of a .jsonl with their line, and a twentieth of
// them is for validation. The number of threads never changes them.
class TextCorpus {
 public:
  // Begins to tokenise at once. Files in order.
  // Errors: those of the tokenizer (missing_input, bad_data, config: other than vocab_size, no
  // BOS).
  TextCorpus(std::vector<std::string> files, const std::string& tokenizer_path, int vocab_size,
             int threads);

  // One shard each, which may outlive the corpus; the last of the three to go stops the threads. A
  // reader waits until the tokens that it needs are there, or all are, and for no others. What
  // needs all: tokens(), and reading past the last token. known_tokens() waits for none: it is
  // known once the text has ended.
  // Errors, where a reader needs tokens that are not there for them: those of DocumentReader and of
  // the tokenizer; bad_data (no documents for one of the two splits, known when the text has
  // ended); stopped (the last owner goes while another thread reads).
  std::shared_ptr<const TokenSource> train() const;
  std::shared_ptr<const TokenSource> val() const;

 private:
  class Work;
  std::shared_ptr<Work> work_;
};

}  // namespace tg
