#include "text/word_boundary.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace tg {
namespace {

constexpr std::size_t kMaxCharacter = 4;  // bytes

bool is_white_space(utf8proc_int32_t point) {
  return (point >= 0x9 && point <= 0xd) || point == 0x20 || point == 0x85 || point == 0xa0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200a) || point == 0x2028 ||
         point == 0x2029 || point == 0x202f || point == 0x205f || point == 0x3000;
}

// `character`: one character of UTF-8, or empty.
CharacterClass class_of(std::string_view character) {
  if (character.empty()) return CharacterClass::inside;
  const auto point = static_cast<utf8proc_int32_t>(code_point(character));
  if (is_white_space(point)) return CharacterClass::space;
  const auto category = utf8proc_category(point);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO)
    return CharacterClass::letter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO)
    return CharacterClass::number;
  return CharacterClass::other;
}

}  // namespace

CharacterClass class_of_start(std::string_view piece) {
  return class_of(first_utf8_character(piece));
}

CharacterClass class_of_end(std::string_view piece) {
  for (std::size_t size = 1; size <= std::min(kMaxCharacter, piece.size()); ++size) {
    const auto last = piece.substr(piece.size() - size);
    if (first_utf8_character(last).size() == size) return class_of(last);
  }
  return CharacterClass::inside;
}

bool may_end_word(CharacterClass end, CharacterClass start) {
  switch (start) {
    case CharacterClass::inside:  // its first character is not known
      return true;
    case CharacterClass::space:  // the last space of several belongs to the next word
      return end == CharacterClass::space;
    case CharacterClass::letter:  // also after the apostrophe of a contraction
      return end == CharacterClass::other;
    case CharacterClass::number:
    case CharacterClass::other:
      break;
  }
  return false;
}

bool ends_in_contraction(std::string_view piece) {
  if (valid_utf8_prefix(piece) != piece.size()) return false;
  for (const auto contraction : kContractions) {
    if (!piece.ends_with(contraction)) continue;
    const auto before = piece.substr(0, piece.size() - contraction.size());
    const auto end = class_of_end(before);
    return before.empty() || end == CharacterClass::letter || end == CharacterClass::number;
  }
  return false;
}

}  // namespace tg
