// Text in Unicode's normal form C: normalizing it again changes nothing, and every byte of the
// original has its place.
#include <cstdlib>

#include "base/utf8.h"
#include "tests/fuzz/target.h"
#include "text/nfc.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {
      "e\u0323\u0302 e\u0302\u0323 \u1100\u1161\u11a8 \uac00\u11a8 \u212b \u0958 a\u0315\u0327b",
      "\u00c0\u0323\xff\u0301\xcc \u0344\ufb31\U0001d15e"};
}

void read(std::string_view bytes) {
  const NfcText normal(bytes);
  const std::string text(normal.text());
  if (NfcText(text).text() != text) std::abort();
  if ((valid_utf8_prefix(bytes) == bytes.size()) != (valid_utf8_prefix(text) == text.size()))
    std::abort();
  std::size_t before = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const auto original = normal.original_bytes(at);
    if (original < before) std::abort();
    before = original;
  }
  if (before != bytes.size()) std::abort();
}

}  // namespace tg::fuzz
