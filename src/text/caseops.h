#pragma once
// CaseOps: encodes text without ASCII capitals, with operators in their place, so that a tokenizer
// needs one piece for a word in any capitalization. Lossless. Each maximal run of ASCII letters
// becomes:
//   nasa    nasa
//   NASA    U+E002 nasa          two letters or more, all capitals
//   Nasa    U+E001 nasa          also N alone
//   NaSA    U+E001 na U+E003 s U+E003 a
// An operator character in the text itself is escaped by a preceding U+E004.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tg {

// Operators, in UTF-8: first letter is a capital, all letters are capitals, a later letter is a
// capital, escape of an operator character in the text.
inline constexpr std::array<std::string_view, 4> kCaseOperators = {"\ue001", "\ue002", "\ue003",
                                                                   "\ue004"};
inline constexpr std::size_t kCaseOperatorBytes = 3;

// Encodes the text. A text that is split before a non-letter may be encoded part by part.
std::string encode_case(std::string_view text);

// Inverse of encode_case(). In other texts, drops operators that no letter follows.
class CaseDecoder {
 public:
  // Decodes the next part; parts may be split between any two characters.
  std::string add(std::string_view part);

 private:
  enum class Next : std::uint8_t { plain, capital, capitals, literal };
  Next next_ = Next::plain;
};

}  // namespace tg
