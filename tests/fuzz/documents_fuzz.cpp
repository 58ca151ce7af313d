// Text files, of each kind and with each separator: documents are valid UTF-8 and not blank.
#include <cstdlib>

#include "base/utf8.h"
#include "tests/fuzz/target.h"
#include "text/document_reader.h"

namespace tg::fuzz {
namespace {

void read_all(ScratchFile& file, std::string_view bytes, Separator separator) {
  file.put(bytes);
  DocumentReader reader({file.path()}, separator, /*replace_invalid=*/false);
  while (const auto document = reader.next()) {
    const std::string& text = document->text;
    if (text.empty() || valid_utf8_prefix(text) != text.size()) std::abort();
  }
}

}  // namespace

// The first byte says how the others are read.
std::vector<std::string> seeds() {
  const std::string text = "one\nword\n\n two \u00e9\U0001F600\n\n\n \r\n\nlast";
  return {"0{\"text\": \"one \\n\"}\n\n{\"text\": \"two \u00e9\"}",
          "1" + text,
          "2" + text,
          "3" + text,
          "4 [{\"text\": \"one \\\"]}\", \"n\": [NaN, {}]},\n {\"text\": \"two\"}]\n",
          "4{\"text\": \"one\"}\n{\"text\": \"two\"}"};
}

void read(std::string_view bytes) {
  static ScratchFile lines("file.jsonl"), text("file.txt"), json("file.json");
  if (bytes.empty()) return;
  const auto rest = bytes.substr(1);
  switch (static_cast<unsigned char>(bytes[0]) % 8) {
    case 0:
      return read_all(lines, rest, Separator::file);
    case 4:
      return read_all(json, rest, Separator::file);
    case 1:
      return read_all(text, rest, Separator::file);
    case 2:
      return read_all(text, rest, Separator::blank_line);
    default:
      return read_all(text, rest, Separator::line);
  }
}

}  // namespace tg::fuzz
