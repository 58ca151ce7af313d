#pragma once
// CaseOps: a text without ASCII capitals, which operators stand for, so that a tokenizer needs one
// piece for a word however it is written. Nothing is lost. Of every maximal run of ASCII letters:
//   nasa    as it is
//   NASA    U+E002 nasa          two letters or more, all capitals
//   Nasa    U+E001 nasa          also N alone
//   NaSA    U+E001 na U+E003 s U+E003 a
// and an operator that the text itself has stands behind U+E004.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tg {

// In UTF-8: before a run's first capital, before a run of capitals, before a later capital, before
// an operator of the text.
inline constexpr std::array<std::string_view, 4> kCaseOperators = {"\ue001", "\ue002", "\ue003",
                                                                   "\ue004"};
inline constexpr std::size_t kCaseOperatorBytes = 3;

// Cut before a character that is no ASCII letter, a text's parts give the parts of the whole.
std::string encode_case(std::string_view text);

// Undoes encode_case(). Of other texts an operator that no letter follows is left out.
class CaseDecoder {
 public:
  // The text of the next part, cut between any two characters.
  std::string add(std::string_view part);

 private:
  enum class Next : std::uint8_t { plain, capital, capitals, literal };
  Next next_ = Next::plain;
};

}  // namespace tg
