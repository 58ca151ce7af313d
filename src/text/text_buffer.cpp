#include "text/text_buffer.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"

namespace tg {
namespace {

// Compressed files are read in smaller parts, since the decompressor has a window of about 2 MiB.
constexpr std::size_t kPart = 1 << 20, kCompressedPart = 1 << 17;
constexpr std::size_t kMaxDocumentBytes = std::size_t{1} << 30;  // the tokenizer counts in int
// A document of more gets all the room that it may need at once: pages that are not read into cost
// nothing, but a buffer that doubles holds it twice while it is copied.
constexpr std::size_t kLongDocumentBytes = std::size_t{1} << 26;

}  // namespace

bool TextBuffer::fill() {
  if (ended_) return false;
  buffer_.erase(0, begin_);
  offset_ += static_cast<std::int64_t>(begin_);
  begin_ = 0;
  REQUIRE(buffer_.size() <= kMaxDocumentBytes, ExitCode::bad_data,
          "a document of {} at byte {} is too long (at most {} bytes); choose another document "
          "separator",
          file_.path(), offset_, kMaxDocumentBytes);
  const std::size_t before = buffer_.size();
  if (before > kLongDocumentBytes) buffer_.reserve(kMaxDocumentBytes + kPart);
  buffer_.resize(before + (file_.is_compressed() ? kCompressedPart : kPart));
  const auto got = file_.read(std::span(buffer_).subspan(before));
  buffer_.resize(before + got);
  ended_ = got == 0;
  return !ended_;
}

bool TextBuffer::looks_like_text(std::int64_t at) const {
  constexpr std::size_t kAround = 4096;
  const auto middle = static_cast<std::size_t>(at - offset_);
  const auto begin = middle - std::min(middle, kAround);
  const auto sample = std::string_view(buffer_).substr(begin, middle - begin + kAround);
  return sample.find('\0') == std::string_view::npos && !has_control_characters(sample);
}

}  // namespace tg
