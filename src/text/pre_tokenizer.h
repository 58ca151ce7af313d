#pragma once
// Splits text into the words of a byte-level BPE, which no merge crosses.
#include <cctype>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

class PreTokenizer {
 public:
  // Each pattern, in PCRE2's syntax, splits the words of the ones before it: a match is a word, and
  // so is what stands between two matches. Throws Error(bad_data), beginning with `where`, for a
  // pattern that does not compile or that matches no character.
  PreTokenizer(const std::vector<std::string>& patterns, const std::string& where);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Calls `on_word` for each word. A byte that is not UTF-8 is its own word. Concatenated, the
  // words are the text. Thread-safe. Throws Error(bad_data) if a pattern needs too many steps.
  void for_each_word(std::string_view text,
                     const std::function<void(std::string_view)>& on_word) const;
  // Returns whether a text may be cut before a space between two ASCII letters or digits, so that
  // the whole and its parts have equal words: tried on random texts, since the words of a pattern
  // do not follow from its form.
  bool may_cut_before_spaces() const;
  // Returns whether kGpt2Pattern alone splits text into words.
  bool is_gpt2() const;

 private:
  struct Pattern;
  void split(std::string_view text, std::size_t step,
             const std::function<void(std::string_view)>& on_word) const;
  std::vector<Pattern> patterns_;
};

// GPT-2's pattern (Radford et al. 2019): English contractions; runs of letters, of digits and of
// other characters, each with one preceding space; and runs of white space, whose last space
// belongs to the next word. Letters and digits are Unicode's categories L and N.
extern const char* const kGpt2Pattern;

// Returns an Oniguruma pattern, as tokenizer.json has it, in PCRE2's syntax: \s, \S and \d are
// Unicode's. Throws Error(bad_data), beginning with `where`, for what the two read differently: \w
// and other classes, ^ and $, sets within sets, repeated intervals, named groups.
std::string pcre2_pattern(std::string_view oniguruma, const std::string& where);

// Returns whether text[at] is a space between two ASCII letters or digits, where Tokenizer::split()
// cuts long texts.
inline bool is_space_between_words(std::string_view text, std::size_t at) {
  const auto is_word = [](char c) { return c > 0 && std::isalnum(static_cast<unsigned char>(c)); };
  return at > 0 && at + 1 < text.size() && text[at] == ' ' && is_word(text[at - 1]) &&
         is_word(text[at + 1]);
}

}  // namespace tg
