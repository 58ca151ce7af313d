#pragma once
// Where GPT-2's pattern (text/pre_tokenizer.h) ends a word between two pieces, from the pieces
// alone.
#include <array>
#include <cstdint>
#include <string_view>

namespace tg {

// The contractions that are words of GPT-2's pattern.
inline constexpr std::array<std::string_view, 7> kContractions = {"'s", "'t",  "'re", "'ve",
                                                                  "'m", "'ll", "'d"};

// Unicode's White_Space; letters (category L) and numbers (N), as \p{L} and \p{N}; all others, with
// marks and controls. `inside`: the piece begins or ends inside a character.
enum class CharacterClass : std::uint8_t { inside, space, letter, number, other };
inline constexpr int kCharacterClasses = 5;

// Return the class of the piece's first and of its last character.
CharacterClass class_of_start(std::string_view piece);
CharacterClass class_of_end(std::string_view piece);

// Returns whether a word may end between a piece that ends with class `end` and one that starts
// with class `start`, so that the text of both need not be one word (record 91 of the speedrun). A
// boundary between letters and numbers is none here: no merge of the vocabularies crosses it.
bool may_end_word(CharacterClass end, CharacterClass start);

// Returns whether the piece ends in a contraction at its start or behind a letter or number: a word
// ends there, whatever follows. False if it is not UTF-8.
bool ends_in_contraction(std::string_view piece);

}  // namespace tg
