#pragma once
// Tokenizes documents on several threads and returns them in order: BOS, if documents have one,
// then the document's tokens, no EOS. The result does not depend on the number of threads.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "text/document_reader.h"
#include "text/normalization_loss.h"
#include "text/tokenizer.h"

namespace tg {

// Throws Error(config) if the tokenizer has no BOS, unless its choice is that documents have none.
void require_bos(const Tokenizer& tokenizer);

// One thread calls next(), which reads the documents; the encoder's worker threads tokenize ahead.
class DocumentEncoder {
 public:
  // Document, or part of a long document.
  struct Part {
    std::vector<TokenId> tokens;
    std::vector<std::uint16_t> bytes;  // per token; empty unless requested
    std::int64_t text_bytes = 0;
    bool begins_document = false;
  };

  // Returns whether the byte counts of a document's tokens are needed, by its index from 0.
  using NeedsBytes = std::function<bool(std::int64_t document)>;

  // `tokenizer` and `reader` must outlive the encoder. Warns once if the tokenizer's normalization
  // loses text of the first documents. Throws Error(config) if the tokenizer has no BOS.
  DocumentEncoder(const Tokenizer& tokenizer, DocumentReader& reader, int threads,
                  NeedsBytes needs_bytes = {});
  ~DocumentEncoder();
  DocumentEncoder(const DocumentEncoder&) = delete;
  DocumentEncoder& operator=(const DocumentEncoder&) = delete;

  // Returns the next parts in order; empty after the last. Throws what the reader and the tokenizer
  // throw.
  std::vector<Part> next();

 private:
  struct Text {
    std::shared_ptr<const Document> document;
    std::string_view text;
    bool begins_document = false;
    bool needs_bytes = false;
  };
  using Job = std::packaged_task<std::vector<Part>()>;

  void submit_more();
  std::vector<Text> take_texts();
  Part encode(const Text& text) const;
  void work();

  const Tokenizer& tokenizer_;
  DocumentReader& reader_;
  NeedsBytes needs_bytes_;
  std::int64_t documents_ = 0;  // number of documents read
  NormalizationLoss loss_;
  std::size_t max_in_flight_;
  std::deque<Text> texts_;  // read, not yet in a job
  bool ended_ = false;
  std::deque<std::future<std::vector<Part>>> in_flight_;  // in order of the text

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tg
