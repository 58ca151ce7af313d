#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <iterator>
#include <random>

#include "base/deleter.h"
#include "base/error.h"
#include "base/escaped.h"
#include "base/utf8.h"

namespace tg {
namespace {

// Unicode's White_Space, spelled out, since PCRE2's \s also includes U+180E.
#define WHITE                                                                                 \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
  "\\x{205f}\\x{3000}"

using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using Match = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;

std::string error_text(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

const char* const kGpt2Pattern =
    "'(?:[sdmt]|ll|ve|re)"
    "| ?\\p{L}+"
    "| ?\\p{N}+"
    "| ?[^" WHITE
    "\\p{L}\\p{N}]+"
    "|[" WHITE "]+(?![^" WHITE
    "])"
    "|[" WHITE "]+";

struct PreTokenizer::Pattern {
  std::string text;
  Code code;
};

PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

PreTokenizer::PreTokenizer(const std::vector<std::string>& patterns, const std::string& where) {
  for (const auto& pattern : patterns) {
    int error = 0;
    PCRE2_SIZE at = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF,
                            &error, &at, nullptr));
    REQUIRE(code, ExitCode::bad_data,
            "{}: the pattern \"{}\" does not compile ({} at character {})", where,
            escaped(pattern, 200), error_text(error), at);
    std::uint32_t shortest = 0;
    pcre2_pattern_info(code.get(), PCRE2_INFO_MATCHEMPTY, &shortest);
    REQUIRE(shortest == 0, ExitCode::bad_data,
            "{}: the pattern \"{}\" matches an empty text (expected at least a character)", where,
            escaped(pattern, 200));
    // JIT may fail where memory cannot be made executable; the pattern is then interpreted.
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    patterns_.push_back({pattern, std::move(code)});
  }
}

void PreTokenizer::for_each_word(std::string_view text,
                                 const std::function<void(std::string_view)>& on_word) const {
  while (!text.empty()) {
    // Checked once here: PCRE2 would check the whole rest for each word.
    const auto valid = valid_utf8_prefix(text);
    if (valid > 0) split(text.substr(0, valid), 0, on_word);
    text.remove_prefix(valid);
    if (text.empty()) break;
    on_word(text.substr(0, 1));
    text.remove_prefix(1);
  }
}

bool PreTokenizer::may_cut_before_spaces() const {
  constexpr std::string_view kCharacters[] = {
      "a", "b", "s", "T", "X", "0", "1", "9", " ", " ", " ", " ",      "\n",     "\t",
      ".", ",", "'", "-", "/", "(", "_", ":", "=", "#", "@", "\u00e9", "\u0301", "\u4f60"};
  constexpr int kTexts = 1000, kLength = 24;
  std::mt19937 random(1);
  for (int i = 0; i < kTexts; ++i) {
    std::string text;
    for (int at = 0; at < kLength; ++at) text += kCharacters[random() % std::size(kCharacters)];
    std::vector<std::string_view> words, of_parts;
    for_each_word(text, [&](std::string_view word) { words.push_back(word); });
    for (std::string_view rest = text; !rest.empty();) {
      std::size_t cut = 1;
      while (cut < rest.size() && !is_space_between_words(rest, cut)) ++cut;
      for_each_word(rest.substr(0, cut), [&](std::string_view word) { of_parts.push_back(word); });
      rest.remove_prefix(cut);
    }
    if (words != of_parts) return false;
  }
  return true;
}

bool PreTokenizer::is_gpt2() const {
  return patterns_.size() == 1 && patterns_.front().text == kGpt2Pattern;
}

void PreTokenizer::split(std::string_view text, std::size_t step,
                         const std::function<void(std::string_view)>& on_word) const {
  if (step == patterns_.size()) return on_word(text);
  const auto* const code = patterns_[step].code.get();
  const Match match(pcre2_match_data_create_from_pattern(code, nullptr));
  REQUIRE(match, ExitCode::memory, "out of memory while a text is split into words");
  std::size_t at = 0;
  while (at < text.size()) {
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    REQUIRE(found > 0, ExitCode::bad_data,
            "cannot split a text of {} bytes into words ({} at byte {})", text.size(),
            error_text(found), at);
    const auto* const bounds = pcre2_get_ovector_pointer(match.get());
    if (bounds[0] > at) split(text.substr(at, bounds[0] - at), step + 1, on_word);
    split(text.substr(bounds[0], bounds[1] - bounds[0]), step + 1, on_word);
    at = bounds[1];
  }
  if (at < text.size()) split(text.substr(at), step + 1, on_word);
}

std::string pcre2_pattern(std::string_view oniguruma, const std::string& where) {
  std::string out;
  bool in_set = false, after_interval = false;
  const auto refuse = [&](std::string_view what) {
    fail(ExitCode::bad_data,
         "{}: the pattern \"{}\" has {} (Oniguruma and PCRE2 read it differently; expected "
         "characters, sets, \\p{{}}, \\s, \\S, \\d, groups, look-ahead and repetition)",
         where, escaped(oniguruma, 200), escaped(what, 20));
  };
  for (std::size_t i = 0; i < oniguruma.size(); ++i) {
    const char c = oniguruma[i];
    const auto rest = oniguruma.substr(i);
    const bool repeats =
        after_interval && std::string_view("+*?{").find(c) != std::string_view::npos;
    if (repeats) refuse("a repeated interval");
    after_interval = false;
    if (c == '\\' && rest.size() > 1) {
      const char escape = rest[1];
      ++i;
      if (escape == 's') {
        out += in_set ? WHITE : "[" WHITE "]";
      } else if (escape == 'S' && !in_set) {
        out += "[^" WHITE "]";
      } else if (escape == 'd') {
        out += "\\p{Nd}";
      } else if (std::string_view("pPrntfx").find(escape) != std::string_view::npos ||
                 std::string_view("\\.|()[]{}*+?^$-/'\"# ").find(escape) !=
                     std::string_view::npos) {
        out += rest.substr(0, 2);
      } else {
        refuse(rest.substr(0, 2));
      }
    } else if (in_set) {
      if (c == '[' || rest.starts_with("&&")) refuse("a set within a set");
      in_set = c != ']';
      out += c;
    } else {
      if (c == '^' || c == '$') refuse(rest.substr(0, 1));
      const bool special = rest.starts_with("(?");
      const auto kind = special ? rest.substr(2, 2) : std::string_view();
      if (special && !(kind.starts_with(':') || kind.starts_with('=') || kind.starts_with('!') ||
                       kind.starts_with('>') || kind == "<=" || kind == "<!" || kind == "i:"))
        refuse(rest.substr(0, 4));
      out += c;
      if (c == '[') {
        in_set = true;
        // A first ] or ^] would be a character of the set.
        if (rest.size() > 1 && rest[1] == '^') out += rest[1], ++i;
      }
      after_interval = c == '}';
    }
    if (c == '\\' && (out.ends_with("\\p") || out.ends_with("\\P") || out.ends_with("\\x"))) {
      const auto end = oniguruma.find('}', i);
      if (i + 1 < oniguruma.size() && oniguruma[i + 1] == '{' && end != std::string_view::npos) {
        out += oniguruma.substr(i + 1, end - i);
        i = end;
      }
    }
  }
  return out;
}
#undef WHITE

}  // namespace tg
