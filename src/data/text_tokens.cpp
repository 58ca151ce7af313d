#include "data/text_tokens.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "config/data_config.h"
#include "data/document_encoder.h"
#include "data/document_split.h"
#include "data/growing_tokens.h"
#include "data/sampled_digest.h"
#include "data/text_kind.h"
#include "data/text_progress.h"

namespace tg {
namespace {

constexpr std::int64_t all_tokens = std::numeric_limits<std::int64_t>::max();
constexpr auto kProgressInterval = std::chrono::milliseconds(100);

std::string name_of(const std::vector<std::string>& files) {
  assert(!files.empty());
  if (files.size() == 1) return files.front();
  return fmt::format("{} and {} more", files.front(), files.size() - 1);
}

}  // namespace

// The splits, the thread that appends to them and the readers that wait for it.
class TextCorpus::Work {
 public:
  Work(std::vector<std::string> files, const std::string& tokenizer_path, int vocab_size,
       int threads, const std::string& text_key);
  ~Work();

  class Split final : public TokenSource {
   public:
    Split(const Work& work, std::string pattern) : work_(work), pattern_(std::move(pattern)) {}

    const std::string& pattern() const override { return pattern_; }
    std::string identity() const override { return work_.identity(); }
    std::int64_t tokens(int) const override { return tokens_up_to(all_tokens); }
    std::int64_t tokens_up_to(std::int64_t limit) const override;
    std::optional<std::int64_t> known_tokens() const override;
    void read_at(std::int64_t offset, std::span<std::uint16_t> out) const override;

   private:
    friend Work;
    const Work& work_;
    std::string pattern_;
    GrowingTokens tokens_;
  };

  Split train, val;

 private:
  std::string identity() const;
  void run();
  void encode_all();
  void require_both_splits(std::int64_t documents) const;
  std::int64_t wait_for(const Split& split, std::int64_t tokens,
                        std::unique_lock<std::mutex>& lock) const;

  const std::vector<std::string> files_;
  std::string name_;
  std::string text_key_;
  Tokenizer tokenizer_;
  mutable TextProgress progress_;  // of waits for the whole text
  DocumentReader reader_;
  DocumentEncoder encoder_;

  // Guards all below and the splits' tokens_.
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;  // tokens_, ended_ or stop_
  mutable std::condition_variable reader_done_;
  mutable int waiting_ = 0;      // readers in wait_for()
  std::int64_t text_bytes_ = 0;  // tokenised so far
  bool stop_ = false;
  bool ended_ = false;
  std::exception_ptr error_;  // of the thread; null at the end of the text
  std::thread thread_;
};

TextCorpus::Work::Work(std::vector<std::string> files, const std::string& tokenizer_path,
                       int vocab_size, int threads, const std::string& text_key)
    : train(*this, name_of(files) + " (train)"),
      val(*this, name_of(files) + " (val)"),
      files_(files),
      name_(name_of(files)),
      text_key_(text_key),
      tokenizer_(tokenizer_path, vocab_size),
      progress_("tokenizing " + name_ + ":", files),
      reader_(std::move(files), Separator::blank_line, false, text_key),
      encoder_(tokenizer_, reader_, threads) {
  thread_ = std::thread([this] { run(); });
}

TextCorpus::Work::~Work() {
  std::unique_lock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  reader_done_.wait(lock, [this] { return waiting_ == 0; });
  lock.unlock();
  thread_.join();
}

// The split of the documents follows from the text.
std::string TextCorpus::Work::identity() const {
  SampledDigest digest;
  std::int64_t bytes = 0;
  for (const auto& path : files_) {
    const auto file = File::open(path);
    digest.add(file);
    bytes += file.size();
  }
  const auto json = std::ranges::count_if(files_, is_json_named);
  const bool other_key = json > 0 && text_key_ != DataConfig().text_key;
  return fmt::format("{} text files ({} of JSON lines{}), {} bytes, digest {}", files_.size(), json,
                     other_key ? ", key " + text_key_ : "", bytes, digest.text());
}

void TextCorpus::Work::run() {
  std::exception_ptr error;
  try {
    encode_all();
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  error_ = error;
  ended_ = true;
  changed_.notify_all();
}

void TextCorpus::Work::encode_all() {
  std::int64_t documents = 0;
  Split* split = &train;
  for (auto parts = encoder_.next(); !parts.empty(); parts = encoder_.next()) {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    for (const auto& part : parts) {
      if (part.begins_document) {
        split = is_validation_document(documents++) ? &val : &train;
      }
      split->tokens_.append(part.tokens);
      text_bytes_ += part.text_bytes;
    }
    changed_.notify_all();
  }
  require_both_splits(documents);
}

// Runs in the only thread that appends, and so needs no lock to read the sizes.
void TextCorpus::Work::require_both_splits(std::int64_t documents) const {
  for (const auto& [split, kind] : {std::pair{&train, "training"}, {&val, "validation"}}) {
    REQUIRE(split->tokens_.size() > 0, ExitCode::bad_data,
            "{}: no {} documents (expected at least 1, found {} documents in all, of which every "
            "twentieth is for validation); give more text, with an empty line between documents, "
            "or choose the split with make_shards",
            name_, kind, documents);
  }
}

// Blocks until the split has `tokens` tokens or the text has ended. → the tokens that it has.
std::int64_t TextCorpus::Work::wait_for(const Split& split, std::int64_t tokens,
                                        std::unique_lock<std::mutex>& lock) const {
  ++waiting_;
  const auto done = [&] { return stop_ || ended_ || split.tokens_.size() >= tokens; };
  if (tokens == all_tokens) {
    while (!changed_.wait_for(lock, kProgressInterval, done)) {
      progress_.show(text_bytes_, train.tokens_.size() + val.tokens_.size(), reader_.bytes_read());
    }
    TextProgress::clear();
  } else {
    changed_.wait(lock, done);
  }
  --waiting_;
  if (stop_) reader_done_.notify_all();
  if (split.tokens_.size() >= tokens) return split.tokens_.size();
  if (error_) std::rethrow_exception(error_);
  REQUIRE(ended_, ExitCode::stopped, "reading {} was stopped at token {} (expected {})",
          split.pattern_, split.tokens_.size(), tokens);
  return split.tokens_.size();
}

std::int64_t TextCorpus::Work::Split::tokens_up_to(std::int64_t limit) const {
  std::unique_lock lock(work_.mutex_);
  return std::min(limit, work_.wait_for(*this, limit, lock));
}

std::optional<std::int64_t> TextCorpus::Work::Split::known_tokens() const {
  const std::lock_guard lock(work_.mutex_);
  if (!work_.ended_ || work_.error_) return {};
  return tokens_.size();
}

void TextCorpus::Work::Split::read_at(std::int64_t offset, std::span<std::uint16_t> out) const {
  assert(offset >= 0);
  std::unique_lock lock(work_.mutex_);
  const std::int64_t available = work_.wait_for(*this, offset + std::ssize(out), lock);
  while (!out.empty()) {
    const std::int64_t position = offset % available;
    const auto part =
        static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(out), available - position));
    tokens_.copy(position, out.first(part));
    out = out.subspan(part);
    offset += static_cast<std::int64_t>(part);
  }
}

TextCorpus::TextCorpus(std::vector<std::string> files, const std::string& tokenizer_path,
                       int vocab_size, int threads, const std::string& text_key)
    : work_(std::make_shared<Work>(std::move(files), tokenizer_path, vocab_size, threads,
                                   text_key)) {}

std::shared_ptr<const TokenSource> TextCorpus::train() const {
  return {work_, &work_->train};
}

std::shared_ptr<const TokenSource> TextCorpus::val() const {
  return {work_, &work_->val};
}

}  // namespace tg
