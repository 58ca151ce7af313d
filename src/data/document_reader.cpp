#include "data/document_reader.h"

#include <algorithm>
#include <utility>

#include "base/byte_order_mark.h"
#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "data/json_line.h"
#include "data/line_ends.h"

namespace tg {
namespace {

constexpr std::size_t chunk_bytes = 1 << 20;
constexpr std::size_t largest_document = std::size_t{1} << 30;  // the tokenizer counts in int

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

}  // namespace

DocumentReader::DocumentReader(std::vector<std::string> paths, Separator separator,
                               bool replace_invalid)
    : paths_(std::move(paths)), separator_(separator), replace_invalid_(replace_invalid) {}

std::optional<Document> DocumentReader::next() {
  while (true) {
    if (!file_) {
      if (next_path_ == paths_.size()) return {};
      open_next();
    }
    const auto raw = take();
    if (!raw) {
      file_.reset();
      continue;
    }
    ++taken_;
    if (is_blank(*raw)) continue;
    std::string text = text_of(*raw, offset_ + (raw->data() - buffer_.data()));
    if (is_blank(text)) continue;
    return Document{.text = std::move(text), .path = file_->path()};
  }
}

void DocumentReader::open_next() {
  const std::string& path = paths_[next_path_++];
  file_.emplace(path == "-" ? File::standard_input() : File::open_stream(path));
  is_jsonl_ = path.ends_with(".jsonl");
  buffer_.clear();
  begin_ = searched_ = 0;
  offset_ = taken_ = 0;
  ended_ = false;
  skip_byte_order_mark();
}

std::string DocumentReader::text_of(std::string_view raw, std::int64_t at) {
  std::string text(raw);
  check(text, at);
  if (!is_jsonl_) return text;
  return text_of_json_line(text, {.path = file_->path(), .line = taken_, .byte = at});
}

bool DocumentReader::fill() {
  if (ended_) return false;
  buffer_.erase(0, begin_);
  offset_ += static_cast<std::int64_t>(begin_);
  searched_ -= begin_;
  begin_ = 0;
  REQUIRE(buffer_.size() <= largest_document, ExitCode::bad_data,
          "a document of {} at byte {} is too long (at most {} bytes); choose another document "
          "separator",
          file_->path(), offset_, largest_document);
  const std::size_t before = buffer_.size();
  buffer_.resize(before + chunk_bytes);
  const auto got = file_->read_some(std::span(buffer_).subspan(before));
  buffer_.resize(before + static_cast<std::size_t>(got));
  bytes_read_ += got;
  ended_ = got == 0;
  return !ended_;
}

// A byte order mark is no text.
void DocumentReader::skip_byte_order_mark() {
  while (buffer_.size() < kByteOrderMark.size() && fill()) {
  }
  begin_ = searched_ = buffer_.size() - without_byte_order_mark(buffer_).size();
}

// The next document before a separator; nothing: the rest of the file has none.
std::optional<std::string_view> DocumentReader::take_separated(Separator separator) {
  const std::string_view text = buffer_;
  std::size_t end = 0, next = 0;
  if (separator == Separator::line) {
    end = searched_ = std::min(text.find('\n', searched_), text.size());
    next = end + 1;
    if (end == text.size()) return {};
    if (end > begin_ && text[end - 1] == '\r') --end;
  } else {
    const auto lines = find_empty_lines(text, searched_);
    end = searched_ = lines.begin;
    next = lines.end;
    // More line ends may follow in the file.
    if (lines.count < 2 || (lines.end == text.size() && !ended_)) return {};
  }
  const auto document = text.substr(begin_, end - begin_);
  begin_ = searched_ = next;
  return document;
}

std::optional<std::string_view> DocumentReader::take() {
  const Separator separator = is_jsonl_ ? Separator::line : separator_;
  do {
    if (separator == Separator::file) continue;
    if (const auto document = take_separated(separator)) return document;
  } while (fill());
  if (begin_ == buffer_.size()) return {};
  if (separator == Separator::blank_line) {
    // The file ends with empty lines.
    if (const auto document = take_separated(separator)) return document;
  }
  const auto document = std::string_view(buffer_).substr(begin_);
  begin_ = searched_ = buffer_.size();
  return document;
}

void DocumentReader::check(std::string& text, std::int64_t at) {
  const std::size_t valid = valid_utf8_prefix(text);
  if (valid == text.size()) return;
  const auto byte = static_cast<unsigned>(static_cast<unsigned char>(text[valid]));
  const std::int64_t where = at + static_cast<std::int64_t>(valid);
  REQUIRE(replace_invalid_, ExitCode::bad_data,
          "{} is not UTF-8 at byte {} (found 0x{:02x}); convert it, or pass --replace-invalid to "
          "make_shards",
          file_->path(), where, byte);
  if (!std::exchange(warned_, true)) {
    log_warn("{} is not UTF-8 at byte {} (found 0x{:02x}); such bytes become U+FFFD", file_->path(),
             where, byte);
  }
  std::string clean = take_utf8(text);
  for (std::size_t i = 0; i < text.size(); ++i) clean += "\uFFFD";  // a last character cut off
  text = std::move(clean);
}

}  // namespace tg
