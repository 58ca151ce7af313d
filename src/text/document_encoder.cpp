#include "text/document_encoder.h"

#include <cassert>
#include <utility>

#include "base/error.h"

namespace tg {
namespace {

// Small documents are grouped into one job, so that queueing costs little compared with tokenizing.
constexpr std::size_t job_bytes = 1 << 18;
// Long documents are split: this bounds memory, keeps all threads busy, and the tokenizer is 1.8
// times as fast with 4 KiB as with 256 KiB at a time.
constexpr std::size_t part_bytes = 1 << 12;

}  // namespace

void require_bos(const Tokenizer& tokenizer) {
  REQUIRE(tokenizer.bos_id() >= 0 || tokenizer.choices().document_start == "none", ExitCode::config,
          "the tokenizer has no BOS piece, which every document begins with; train it with a "
          "bos_id, or "
          "set DOCUMENT_START (make_shards --document-start) to none or to a special piece's id");
}

DocumentEncoder::DocumentEncoder(const Tokenizer& tokenizer, DocumentReader& reader, int threads,
                                 NeedsBytes needs_bytes)
    : tokenizer_(tokenizer),
      reader_(reader),
      needs_bytes_(std::move(needs_bytes)),
      loss_(tokenizer),
      max_in_flight_(2 * static_cast<std::size_t>(threads) + 1) {
  assert(threads > 0);
  require_bos(tokenizer);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

DocumentEncoder::~DocumentEncoder() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    jobs_.clear();
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::vector<DocumentEncoder::Part> DocumentEncoder::next() {
  submit_more();
  if (in_flight_.empty()) return {};
  auto parts = in_flight_.front().get();
  in_flight_.pop_front();
  return parts;
}

void DocumentEncoder::submit_more() {
  while (in_flight_.size() < max_in_flight_) {
    auto texts = take_texts();
    if (texts.empty()) return;
    Job job([this, job_texts = std::move(texts)] {
      std::vector<Part> parts;
      parts.reserve(job_texts.size());
      for (const Text& text : job_texts) parts.push_back(encode(text));
      return parts;
    });
    in_flight_.push_back(job.get_future());
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
  }
}

std::vector<DocumentEncoder::Text> DocumentEncoder::take_texts() {
  std::vector<Text> texts;
  std::size_t bytes = 0;
  while (bytes < job_bytes) {
    if (texts_.empty()) {
      if (ended_) break;
      auto document = reader_.next();
      ended_ = !document.has_value();
      if (ended_) {
        loss_.finish();
        break;
      }
      const auto shared = std::make_shared<const Document>(std::move(*document));
      loss_.add(shared->text);
      const bool wanted = needs_bytes_ && needs_bytes_(documents_);
      ++documents_;
      for (const std::string_view part : tokenizer_.split(shared->text, part_bytes)) {
        texts_.push_back({shared, part, part.data() == shared->text.data(), wanted});
      }
    }
    bytes += texts_.front().text.size();
    texts.push_back(std::move(texts_.front()));
    texts_.pop_front();
  }
  return texts;
}

DocumentEncoder::Part DocumentEncoder::encode(const Text& text) const {
  Part part{.tokens = {},
            .bytes = {},
            .text_bytes = static_cast<std::int64_t>(text.text.size()),
            .begins_document = text.begins_document};
  if (part.begins_document && tokenizer_.bos_id() >= 0) {
    part.tokens.push_back(static_cast<TokenId>(tokenizer_.bos_id()));
    if (text.needs_bytes) part.bytes.push_back(0);
  }
  if (text.needs_bytes) {
    tokenizer_.encode_counted(text.text, !part.begins_document, part.tokens, part.bytes);
  } else if (part.begins_document) {
    tokenizer_.encode(text.text, part.tokens);
  } else {
    tokenizer_.encode_continued(text.text, part.tokens);
  }
  return part;
}

void DocumentEncoder::work() {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (stop_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();  // next() rethrows its exception from the future
  }
}

}  // namespace tg
