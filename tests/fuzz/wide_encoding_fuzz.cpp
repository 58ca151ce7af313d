// The begin of a text, in UTF-16 or UTF-32 or in neither, and raw token ids by their width.
#include <cstdlib>
#include <span>

#include "data/token_ids.h"
#include "tests/fuzz/target.h"
#include "text/foreign_format.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  return {"t\0h\0e\0 \0w\0o\0r\0k\0\n\0"s, "\0t\0h\0e\0 \0w\0o\0r\0k"s, "t\0\0\0h\0\0\0e\0\0\0"s,
          "\x3d\xd8\0\xde \0:\0"s, "the work \u00e9"};
}

void read(std::string_view bytes) {
  const auto encoding = wide_encoding(bytes);
  if (!encoding.empty() && bytes.size() < 2) std::abort();
  const auto stored = std::as_bytes(std::span(bytes));
  for (const int width : {2, 4}) {
    const auto wider = wider_ids(stored, width);
    if (wider && *wider <= width) std::abort();
  }
}

}  // namespace tg::fuzz
