#pragma once
// Tokenizes documents on several threads and returns them in order: BOS, then the document's
// tokens, no EOS. The result does not depend on the number of threads.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "text/document_reader.h"
#include "text/normalization_loss.h"
#include "text/tokenizer.h"

namespace tg {

// Errors: config (the tokenizer has no BOS, which begins every document).
void require_bos(const Tokenizer& tokenizer);

// One thread calls next(), which reads the documents; the encoder's own threads tokenize ahead.
class DocumentEncoder {
 public:
  // A document, or a part of a long one.
  struct Part {
    std::vector<std::uint16_t> tokens;
    std::vector<std::uint16_t> bytes;  // of each token, where they are wanted
    std::int64_t text_bytes = 0;
    bool begins_document = false;
  };

  // Whether the bytes of a document's tokens are wanted, by its index from 0.
  using BytesWanted = std::function<bool(std::int64_t document)>;

  // `tokenizer` and `reader` must outlive the encoder. Warns once of what the tokenizer does not
  // keep of the first documents. Errors: config (the tokenizer has no BOS).
  DocumentEncoder(const Tokenizer& tokenizer, DocumentReader& reader, int threads,
                  BytesWanted bytes_wanted = {});
  ~DocumentEncoder();
  DocumentEncoder(const DocumentEncoder&) = delete;
  DocumentEncoder& operator=(const DocumentEncoder&) = delete;

  // The next parts in order; empty after the last. Errors: those of reader and tokenizer.
  std::vector<Part> next();

 private:
  struct Text {
    std::shared_ptr<const Document> document;
    std::string_view text;
    bool begins_document = false;
    bool bytes_wanted = false;
  };
  using Job = std::packaged_task<std::vector<Part>()>;

  void submit_more();
  std::vector<Text> take_texts();
  Part encode(const Text& text) const;
  std::vector<Part> encode(const std::vector<Text>& texts) const;
  void work();

  const Tokenizer& tokenizer_;
  DocumentReader& reader_;
  BytesWanted bytes_wanted_;
  std::int64_t documents_ = 0;  // read
  NormalizationLoss loss_;
  std::size_t most_in_flight_;
  std::deque<Text> texts_;  // read, not yet in a job
  bool ended_ = false;
  std::deque<std::future<std::vector<Part>>> in_flight_;  // in order

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tg
