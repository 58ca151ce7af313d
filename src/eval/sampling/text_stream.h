#pragma once
// Streams generated text: in complete UTF-8 characters, and up to a stop text.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace tg {

// Decodes tokens that arrive one by one, and passes on text as soon as it is complete UTF-8. The
// concatenation equals Tokenizer::decode of all tokens, with U+FFFD for each byte that is not
// UTF-8, except for the bytes of an incomplete last character. The cost per token does not depend
// on the length of the text.
class TextStream {
 public:
  using OnText = std::function<void(std::string_view)>;
  // `tokenizer` must outlive this object. `prompt`: tokens before the first one, whose text is not
  // passed on.
  TextStream(const Tokenizer& tokenizer, std::span<const TokenId> prompt, OnText on_text);

  void add(TokenId id);

 private:
  void add_bytes(TokenId id);

  const Tokenizer& tokenizer_;
  OnText on_text_;
  bool continues_;                // whether there is text before `waiting_`
  std::vector<TokenId> waiting_;  // tokens whose text was not passed on yet
  std::string bytes_;             // byte-level vocabulary: beginning of a character
};

// Passes on text that arrives in parts, up to the first occurrence of `stop`; holds back text that
// may begin one. With an empty `stop`, passes on all text.
class StopText {
 public:
  using OnText = std::function<void(std::string_view)>;
  StopText(std::string stop, OnText on_text)
      : stop_(std::move(stop)), on_text_(std::move(on_text)) {}

  void add(std::string_view text);
  bool found() const { return found_; }
  // Ends the text: passes on what was held back.
  void end() { pass_on(waiting_.size()); }

 private:
  void pass_on(std::size_t count);

  std::string stop_;
  OnText on_text_;
  std::string waiting_;
  bool found_ = false;
};

}  // namespace tg
