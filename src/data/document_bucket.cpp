#include "data/document_bucket.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tg {
namespace {

// Stored before a part's tokens.
struct Header {
  std::uint64_t key, tokens;
};
constexpr std::size_t header_words = sizeof(Header) / 2;

// Appends words [at, at + count) of the file.
void append_words(std::vector<std::uint16_t>& words, const File& file, std::int64_t at,
                  std::int64_t count) {
  const auto before = words.size();
  words.resize(before + static_cast<std::size_t>(count));
  file.read_at(2 * at, std::as_writable_bytes(std::span(words).subspan(before)));
}

}  // namespace

std::size_t for_each_stored(std::span<const std::uint16_t> stored, const PartVisitor& visit) {
  std::size_t at = 0;
  while (stored.size() - at >= header_words) {
    Header header{};
    std::memcpy(&header, &stored[at], sizeof header);
    const auto tokens = stored.subspan(at + header_words);
    if (tokens.size() < header.tokens) break;
    visit({header.key, tokens.first(header.tokens)});
    at += header_words + header.tokens;
  }
  return at;
}

DocumentBucket::DocumentBucket(std::string dir, std::int64_t buffer_bytes)
    : dir_(std::move(dir)), buffer_words_(buffer_bytes / 2) {}

void DocumentBucket::append(const DocumentPart& part) {
  if (documents_ == 0 || part.key != last_key_) ++documents_;
  last_key_ = part.key;
  const Header header{part.key, part.tokens.size()};
  const auto at = buffer_.size();
  buffer_.resize(at + header_words);
  std::memcpy(&buffer_[at], &header, sizeof header);
  buffer_.insert(buffer_.end(), part.tokens.begin(), part.tokens.end());
  if (std::ssize(buffer_) < buffer_words_) return;
  if (!file_) file_.emplace(File::temporary(dir_));
  file_->append(std::as_bytes(std::span(buffer_)));
  file_words_ += std::ssize(buffer_);
  buffer_.clear();
}

void DocumentBucket::for_each(const PartVisitor& visit) const {
  std::vector<std::uint16_t> words;
  for (std::int64_t at = 0; at < file_words_;) {
    const auto count = std::min(buffer_words_, file_words_ - at);
    append_words(words, *file_, at, count);
    at += count;
    const auto visited = for_each_stored(words, visit);
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(visited));
  }
  for_each_stored(buffer_, visit);
}

std::vector<std::uint16_t> DocumentBucket::read() const {
  std::vector<std::uint16_t> words;
  words.reserve(static_cast<std::size_t>(bytes()) / 2);
  if (file_) append_words(words, *file_, 0, file_words_);
  words.insert(words.end(), buffer_.begin(), buffer_.end());
  return words;
}

std::int64_t DocumentBucket::bytes() const {
  return 2 * (file_words_ + std::ssize(buffer_));
}

}  // namespace tg
