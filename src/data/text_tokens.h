#pragma once
// Text files as token sources, without shards: threads tokenise them while training runs, of one
// process for all of a host. All tokens stay in memory, 2 bytes each; for more text than memory
// holds, make_shards writes shards.
#include <memory>
#include <string>
#include <vector>

#include "data/shared_tokens.h"
#include "data/token_source.h"
#include "text/tokenizer.h"

namespace tg {

// The splits that someone will read.
struct WantedSplits {
  bool train = true, val = true;
};

// The tokens equal those of the shards that make_shards --document-separator blank-line writes: a
// document of a .txt file ends at an empty line, one of a .jsonl file is a line, and every
// twentieth document is for validation. They do not depend on the number of threads.
class TextCorpus {
 public:
  // Starts to tokenise `files`, in order, in one process of the host: others, which the same
  // `once_per_host` connects with it, read its tokens and have no threads. text_key: of JSON's
  // objects, the text. A text need not have documents of a split that is not wanted.
  // Errors: config (the tokenizer has no BOS), in every process.
  TextCorpus(std::vector<std::string> files, Tokenizer tokenizer, int threads,
             const std::string& text_key = "text", const OncePerHost& once_per_host = once_alone,
             WantedSplits wanted = {});

  // Sources of one shard each, which may outlive the corpus; the last of the three to be destroyed
  // stops the threads. A read blocks until its tokens are made, or the text has ended. tokens() and
  // reads past the last token need the whole text; known_tokens() never blocks.
  // Errors, of a read whose tokens cannot be made: those of DocumentReader and of the tokenizer;
  // bad_data (a wanted split has no documents, known at the end of the text); stopped (the last
  // owner was destroyed while another thread reads); unavailable (the process that tokenised has
  // gone).
  std::shared_ptr<const TokenSource> train() const;
  std::shared_ptr<const TokenSource> val() const;

 private:
  class Work;
  std::shared_ptr<Work> work_;
};

}  // namespace tg
