#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cassert>
#include <memory>

#include "base/deleter.h"
#include "base/error.h"
#include "base/utf8.h"

namespace tg {
namespace {

// Unicode's White_Space, written out: PCRE2's \s has U+180E as well.
#define WHITE                                                                                 \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
  "\\x{205f}\\x{3000}"
constexpr const char* word_pattern =
    "'(?:[sdmt]|ll|ve|re)"
    "| ?\\p{L}+"
    "| ?\\p{N}+"
    "| ?[^" WHITE
    "\\p{L}\\p{N}]+"
    "|[" WHITE "]+(?![^" WHITE
    "])"
    "|[" WHITE "]+";
#undef WHITE

using Pattern = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using Match = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;

Pattern compile_pattern() {
  int error = 0;
  PCRE2_SIZE at = 0;
  Pattern pattern(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(word_pattern), PCRE2_ZERO_TERMINATED,
                                PCRE2_UTF | PCRE2_ANCHORED, &error, &at, nullptr));
  assert(pattern);
  // Where no memory may be executed, it is interpreted.
  pcre2_jit_compile(pattern.get(), PCRE2_JIT_COMPLETE);
  return pattern;
}

}  // namespace

void for_each_word(std::string_view text, const std::function<void(std::string_view)>& on_word) {
  static const Pattern pattern = compile_pattern();
  const Match match(pcre2_match_data_create_from_pattern(pattern.get(), nullptr));
  REQUIRE(match, ExitCode::memory, "out of memory while a text is cut into words");
  while (!text.empty()) {
    // Checked here once: the library would check all of the rest for each word.
    const auto valid = valid_utf8_prefix(text);
    for (std::size_t at = 0; at < valid;) {
      const int found = pcre2_match(pattern.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), valid,
                                    at, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
      REQUIRE(found > 0, ExitCode::bad_data,
              "cannot cut a text of {} bytes into words (PCRE2's error {} at byte {})", text.size(),
              found, at);
      const auto end = pcre2_get_ovector_pointer(match.get())[1];
      assert(end > at);
      on_word(text.substr(at, end - at));
      at = end;
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    on_word(text.substr(0, 1));
    text.remove_prefix(1);
  }
}

}  // namespace tg
