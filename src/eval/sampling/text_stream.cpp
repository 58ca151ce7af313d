#include "eval/sampling/text_stream.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/caseops.h"

namespace tg {

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const TokenId> prompt, OnText on_text)
    : tokenizer_(tokenizer),
      on_text_(std::move(on_text)),
      continues_(!tokenizer.model().decode(prompt).empty()) {
  if (!tokenizer.case_operators().empty()) {
    // The letters of a case operator may come with any later token.
    CaseDecoder decoder;
    decoder.add(tokenizer_.model().decode(prompt));
    on_text_ = [decoder, on_text = std::move(on_text_)](std::string_view coded) mutable {
      const auto text = decoder.add(coded);
      if (!text.empty()) on_text(text);
    };
  }
  // Without text before, the prompt's tokens decide whether the first word loses its space.
  if (!continues_) waiting_.assign(prompt.begin(), prompt.end());
}

void TextStream::add_bytes(TokenId id) {
  bytes_ += tokenizer_.model().decode({&id, 1});
  const auto text = take_utf8(bytes_);
  if (!text.empty()) on_text_(text);
}

void TextStream::add(TokenId id) {
  if (tokenizer_.byte_level()) return add_bytes(id);
  waiting_.push_back(id);
  auto passed_on = waiting_.size();
  const auto& model = tokenizer_.model();
  auto text = continues_ ? model.decode_continued(waiting_) : model.decode(waiting_);
  if (!continues_ && text.empty()) return;
  // An incomplete character decodes as one U+FFFD per byte: waits for its other bytes.
  if (text.ends_with("\uFFFD")) {
    constexpr std::size_t kMostBytes = 4;  // of a character in UTF-8
    if (!continues_ || waiting_.size() < kMostBytes) return;
    // Four bytes without a complete character: the first one begins none.
    passed_on = 1;
    text = model.decode_continued(std::span(waiting_).first(passed_on));
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(passed_on));
  continues_ = true;
  if (!text.empty()) on_text_(text);
}

void StopText::pass_on(std::size_t count) {
  if (count > 0) on_text_(std::string_view(waiting_).substr(0, count));
  waiting_.erase(0, count);
}

void StopText::add(std::string_view text) {
  if (found_) return;
  waiting_ += text;
  if (const auto at = stop_.empty() ? waiting_.npos : waiting_.find(stop_); at != waiting_.npos) {
    found_ = true;
    pass_on(at);
    waiting_.clear();
    return;
  }
  // Keeps the longest suffix that is a prefix of `stop`.
  auto kept = std::min(waiting_.size(), stop_.size());
  while (kept > 0 && !stop_.starts_with(std::string_view(waiting_).substr(waiting_.size() - kept)))
    --kept;
  pass_on(waiting_.size() - kept);
}

}  // namespace tg
