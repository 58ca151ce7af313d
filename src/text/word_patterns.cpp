#include "text/word_patterns.h"

#include <algorithm>
#include <iterator>

namespace tg {
namespace {

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
// cl100k's, with the digits that are one word.
#define CL100K(digits) \
  CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

constexpr struct {
  std::string_view name, pattern;
} kPatterns[] = {
    {"gpt2", "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {"cl100k", CL100K("\\p{N}{1,3}")},
    {"llama3", CL100K("\\p{N}{1,3}")},
    {"qwen2", CL100K("\\p{N}")},
    {"o200k",
     "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTION "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER
     "+" LOWER "*" CONTRACTION "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES},
};

}  // namespace

std::string word_pattern(std::string_view stated) {
  const auto* const known =
      std::ranges::find_if(kPatterns, [&](const auto& pattern) { return pattern.name == stated; });
  return std::string(known == std::end(kPatterns) ? stated : known->pattern);
}

}  // namespace tg
