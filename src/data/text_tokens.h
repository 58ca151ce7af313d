#pragma once
// Text files as token sources, without shards: threads of one process per host tokenize them during
// training. All tokens stay in memory, 2 bytes each (4 in a vocabulary above 65,536); for more text
// than memory holds, make_shards writes shards.
#include <memory>
#include <string>
#include <vector>

#include "data/shared_tokens.h"
#include "data/token_source.h"
#include "text/tokenizer.h"

namespace tg {

// Splits that will be read.
struct WantedSplits {
  bool train = true, val = true;
};

// The tokens are the same as in shards from make_shards --document-separator blank-line: a
// document of a .txt file ends at an empty line, a document of a .jsonl file is a line, and every
// twentieth document is for validation. They do not depend on the number of threads.
class TextCorpus {
 public:
  // Starts to tokenize `files`, in order, in one process of the host: other processes, which call
  // the same `once_per_host`, read its tokens and have no threads. text_key: the member of JSON
  // objects that holds the text. A text need not have documents of an unwanted split. Throws
  // Error(config), in every process, if the tokenizer has no BOS.
  TextCorpus(std::vector<std::string> files, Tokenizer tokenizer, int threads,
             const std::string& text_key = "text", const OncePerHost& once_per_host = once_alone,
             WantedSplits wanted = {});

  // Sources of one shard each, which may outlive the corpus; the last of the three to be destroyed
  // stops the threads. A read blocks until its tokens are available or the text has ended. tokens()
  // and reads past the last token need the whole text; known_tokens() never blocks. A read whose
  // tokens cannot be produced throws what DocumentReader and the tokenizer throw; Error(bad_data)
  // if a wanted split has no documents, known at the end of the text; Error(stopped) if the last
  // owner was destroyed while another thread reads; Error(unavailable) if the tokenizing process
  // has exited.
  std::shared_ptr<const TokenSource> train() const { return train_; }
  std::shared_ptr<const TokenSource> val() const { return val_; }

 private:
  std::shared_ptr<const TokenSource> train_, val_;
};

}  // namespace tg
