#include "data/text_tokens.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "config/data_config.h"
#include "files/file_digest.h"
#include "text/document_encoder.h"
#include "text/document_reader.h"
#include "text/text_files.h"
#include "text/text_progress.h"

namespace tg {
namespace {

constexpr std::int64_t all_tokens = std::numeric_limits<std::int64_t>::max();
constexpr auto kProgressInterval = std::chrono::milliseconds(100);

std::string name_of(const std::vector<std::string>& files) {
  assert(!files.empty());
  if (files.size() == 1) return files.front();
  return fmt::format("{} and {} more", files.front(), files.size() - 1);
}

// Owns the tokens, the thread that produces them if it is in this process, and the waits of
// readers.
class Work {
 public:
  Work(std::vector<std::string> files, Tokenizer tokenizer, int threads,
       const std::string& text_key, const OncePerHost& once_per_host, WantedSplits wanted);
  ~Work();

  std::string identity() const;
  int id_bytes() const { return id_bytes_below(tokenizer_.pieces()); }
  const std::string& pattern(SharedTokens::Split split) const { return patterns_[split]; }
  // Blocks until the split has `tokens` tokens or the text has ended. Returns the number of tokens
  // available.
  std::int64_t wait_for(SharedTokens::Split split, std::int64_t tokens) const;
  const SharedTokens& tokens() const { return *tokens_; }

 private:
  void run();
  void encode_all();
  void require_wanted_splits(std::int64_t documents) const;
  void show_progress() const;

  // Marks a reader in wait_for(), for which the destructor waits.
  class Waiting {
   public:
    Waiting(const Work& work, bool shows_progress) : work_(work), shows_progress_(shows_progress) {
      const std::lock_guard lock(work_.mutex_);
      ++work_.waiting_;
    }
    ~Waiting() {
      if (shows_progress_) TextProgress::clear();
      const std::lock_guard lock(work_.mutex_);
      --work_.waiting_;
      work_.reader_done_.notify_all();
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    const Work& work_;
    const bool shows_progress_;
  };

  const std::vector<std::string> files_;
  const std::string name_;
  const std::array<std::string, 2> patterns_{name_ + " (train)", name_ + " (val)"};
  const std::string text_key_;
  const WantedSplits wanted_;
  const Tokenizer tokenizer_;
  std::shared_ptr<SharedTokens> tokens_;
  // Set in the process that tokenizes.
  std::optional<DocumentReader> reader_;
  std::optional<DocumentEncoder> encoder_;
  std::exception_ptr error_;  // written before the state of tokens_ becomes `failed`
  std::atomic<bool> stop_ = false;

  mutable std::mutex mutex_;  // guards the members below
  mutable std::condition_variable reader_done_;
  mutable int waiting_ = 0;        // readers in wait_for()
  mutable TextProgress progress_;  // shown while a reader waits for the whole text

  std::thread thread_;
};

Work::Work(std::vector<std::string> files, Tokenizer tokenizer, int threads,
           const std::string& text_key, const OncePerHost& once_per_host, WantedSplits wanted)
    : files_(std::move(files)),
      name_(name_of(files_)),
      text_key_(text_key),
      wanted_(wanted),
      tokenizer_(std::move(tokenizer)),
      progress_("tokenizing " + name_ + ":", files_) {
  require_bos(tokenizer_);
  std::shared_ptr<SharedTokens> own;
  const auto address = once_per_host([&] {
    own = std::make_shared<SharedTokens>(id_bytes());
    return own->address();
  });
  if (!own) tokens_ = SharedTokens::open(address, id_bytes());
  if (tokens_) return;
  // This process tokenizes: for all processes of the host, or only for itself if it may not open
  // the other process's tokens.
  tokens_ = own ? own : std::make_shared<SharedTokens>(id_bytes());
  reader_.emplace(files_, Separator::blank_line, false, text_key_);
  encoder_.emplace(tokenizer_, *reader_, threads);
  thread_ = std::thread([this] { run(); });
}

Work::~Work() {
  stop_ = true;
  tokens_->wake();
  std::unique_lock lock(mutex_);
  reader_done_.wait(lock, [this] { return waiting_ == 0; });
  lock.unlock();
  if (thread_.joinable()) thread_.join();
}

// Covers the files only: their split into documents follows from their contents.
std::string Work::identity() const {
  SampledDigest digest;
  std::int64_t bytes = 0;
  for (const auto& path : files_) {
    const auto file = File::open(path);
    digest.add(file);
    bytes += file.size();
  }
  const auto json = std::ranges::count_if(files_, is_json_named);
  const bool other_key =
      std::ranges::any_of(files_, has_text_key) && text_key_ != DataConfig().text_key;
  const auto& start = tokenizer_.choices().document_start;
  return fmt::format("{} text files ({} of JSON lines{}{}), {} bytes, digest {}", files_.size(),
                     json, other_key ? ", key " + text_key_ : "",
                     start == "auto" ? "" : ", documents begin with " + start, bytes,
                     digest.text());
}

void Work::run() {
  try {
    encode_all();
  } catch (const Error& error) {
    error_ = std::current_exception();
    tokens_->fail(error.exit_code(), error.what());
  } catch (const std::exception& error) {
    error_ = std::current_exception();
    tokens_->fail(ExitCode::unavailable,
                  fmt::format("tokenizing {} failed in the process that does it for this host ({})",
                              name_, error.what()));
  }
}

void Work::encode_all() {
  std::int64_t documents = 0, text_bytes = 0;
  auto split = SharedTokens::train;
  for (auto parts = encoder_->next(); !parts.empty(); parts = encoder_->next()) {
    if (stop_) return;
    for (const auto& part : parts) {
      if (part.begins_document) {
        split = is_validation_document(documents++) ? SharedTokens::val : SharedTokens::train;
      }
      tokens_->append(split, part.tokens);
      text_bytes += part.text_bytes;
    }
    tokens_->publish(text_bytes, reader_->bytes_read());
  }
  require_wanted_splits(documents);
  tokens_->end();
}

void Work::require_wanted_splits(std::int64_t documents) const {
  for (const auto& [wanted, split, kind] :
       {std::tuple{wanted_.train, SharedTokens::train, "training"},
        {wanted_.val, SharedTokens::val, "validation"}}) {
    REQUIRE(!wanted || tokens_->tokens(split) > 0, ExitCode::bad_data,
            "{}: no {} documents (expected at least 1, found {} documents in all, of which every "
            "twentieth is for validation); give more text, with an empty line between documents, "
            "or choose the split with make_shards",
            name_, kind, documents);
  }
}

std::int64_t Work::wait_for(SharedTokens::Split split, std::int64_t tokens) const {
  const bool all = tokens == all_tokens;
  const Waiting waiting(*this, all);
  while (true) {
    const auto seen = tokens_->changes();
    const bool gone = tokens_->producer_has_exited();
    const auto state = tokens_->state();
    // Read after the state: if the text has ended, these are all tokens.
    const auto made = tokens_->tokens(split);
    if (made >= tokens || state == SharedTokens::State::ended) return made;
    if (state == SharedTokens::State::failed) {
      if (error_) std::rethrow_exception(error_);
      throw tokens_->error();
    }
    REQUIRE(!stop_, ExitCode::stopped, "reading {} was stopped at token {} (expected {})",
            pattern(split), made, tokens);
    REQUIRE(!gone, ExitCode::unavailable,
            "the process of this host that tokenized {} has gone at token {}; its own message says "
            "why",
            pattern(split), made);
    tokens_->wait_for_change(seen, kProgressInterval);
    if (all) show_progress();
  }
}

void Work::show_progress() const {
  const std::lock_guard lock(mutex_);
  progress_.show(tokens_->text_bytes(),
                 tokens_->tokens(SharedTokens::train) + tokens_->tokens(SharedTokens::val),
                 tokens_->bytes_read());
}

class Split final : public TokenSource {
 public:
  Split(const Work& work, SharedTokens::Split split) : work_(work), split_(split) {}

  const std::string& pattern() const override { return work_.pattern(split_); }
  std::string identity() const override { return work_.identity(); }
  std::int64_t tokens(int) const override { return tokens_up_to(all_tokens); }
  std::int64_t tokens_up_to(std::int64_t limit) const override {
    return std::min(limit, work_.wait_for(split_, limit));
  }
  std::optional<std::int64_t> known_tokens() const override {
    if (work_.tokens().state() != SharedTokens::State::ended) return {};
    return work_.tokens().tokens(split_);
  }
  int id_bytes() const override { return work_.id_bytes(); }
  void read_at(std::int64_t offset, const MutableIds& out) const override {
    assert(offset >= 0);
    const auto read = [&](auto ids) {
      const std::int64_t available = work_.wait_for(split_, offset + std::ssize(ids));
      while (!ids.empty()) {
        const std::int64_t position = offset % available;
        const auto part =
            static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(ids), available - position));
        work_.tokens().read(split_, position, ids.first(part));
        ids = ids.subspan(part);
        offset += static_cast<std::int64_t>(part);
      }
    };
    std::visit(read, out);
  }

 private:
  const Work& work_;
  const SharedTokens::Split split_;
};

struct Corpus {
  Split train{work, SharedTokens::train}, val{work, SharedTokens::val};
  Work work;  // the last, since its destructor waits for the readers of the splits
};

}  // namespace

TextCorpus::TextCorpus(std::vector<std::string> files, Tokenizer tokenizer, int threads,
                       const std::string& text_key, const OncePerHost& once_per_host,
                       WantedSplits wanted) {
  const std::shared_ptr<const Corpus> corpus(
      new Corpus{.work = Work(std::move(files), std::move(tokenizer), threads, text_key,
                              once_per_host, wanted)});
  train_ = {corpus, &corpus->train};
  val_ = {corpus, &corpus->val};
}

}  // namespace tg
