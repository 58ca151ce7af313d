#include "eval/text_stream.h"

#include <utility>

#include "base/utf8.h"

namespace tg {

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const std::uint16_t> prompt,
                       OnText on_text)
    : tokenizer_(tokenizer),
      on_text_(std::move(on_text)),
      continues_(!tokenizer.decode(prompt).empty()) {
  // Where there is no text yet, they decide whether the first word loses its space.
  if (!continues_) waiting_.assign(prompt.begin(), prompt.end());
}

void TextStream::add_bytes(std::uint16_t id) {
  bytes_ += tokenizer_.decode({&id, 1});
  const auto text = take_utf8(bytes_);
  if (!text.empty()) on_text_(text);
}

void TextStream::add(std::uint16_t id) {
  if (tokenizer_.byte_level()) return add_bytes(id);
  waiting_.push_back(id);
  auto passed_on = waiting_.size();
  auto text = continues_ ? tokenizer_.decode_continued(waiting_) : tokenizer_.decode(waiting_);
  if (!continues_ && text.empty()) return;
  // The bytes of a character that is not whole are decoded as U+FFFD each: wait for the others.
  if (text.ends_with("\uFFFD")) {
    constexpr std::size_t kMostBytes = 4;  // of a character in UTF-8
    if (!continues_ || waiting_.size() < kMostBytes) return;
    // Four that are no whole character: the first is the beginning of none.
    passed_on = 1;
    text = tokenizer_.decode_continued(std::span(waiting_).first(passed_on));
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(passed_on));
  continues_ = true;
  if (!text.empty()) on_text_(text);
}

}  // namespace tg
