#pragma once
// How text that is being generated is passed on: as whole UTF-8, and up to where a text ends it.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace tg {

// The text of tokens that arrive one by one, passed on as soon as it is whole UTF-8: together what
// Tokenizer::decode gives for all of them, with U+FFFD for each byte that is no UTF-8, but for the
// bytes of a last character whose others never came. The work for a token does not grow with the
// text.
class TextStream {
 public:
  using OnText = std::function<void(std::string_view)>;
  // `tokenizer` must outlive this. The text of `prompt`, tokens before the first one, is not passed
  // on.
  TextStream(const Tokenizer& tokenizer, std::span<const std::uint16_t> prompt, OnText on_text);

  void add(std::uint16_t id);

 private:
  void pass_on_capitals(std::span<const std::uint16_t> prompt);
  void add_bytes(std::uint16_t id);

  const Tokenizer& tokenizer_;
  OnText on_text_;
  bool continues_;                      // there is text before `waiting_`
  std::vector<std::uint16_t> waiting_;  // tokens whose text was not passed on
  std::string bytes_;                   // of a byte-level vocabulary: the begin of a character
};

// Text that arrives in parts, passed on up to where `stop` begins in it, as soon as it is known not
// to be a part of that. With an empty `stop` all of it.
class StopText {
 public:
  using OnText = std::function<void(std::string_view)>;
  StopText(std::string stop, OnText on_text)
      : stop_(std::move(stop)), on_text_(std::move(on_text)) {}

  void add(std::string_view text);
  bool found() const { return found_; }
  // No more text comes: passes on what might have become `stop`.
  void end();

 private:
  void pass_on(std::size_t count);

  std::string stop_;
  OnText on_text_;
  std::string waiting_;
  bool found_ = false;
};

}  // namespace tg
