// Text tokenised by a thread of its own, invalid bytes replaced: every id is a piece, and has its
// bytes where they are wanted, of every second document.
#include <cstdlib>

#include "tests/fuzz/target.h"
#include "text/document_encoder.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  std::string text;
  for (int i = 0; i < 900; ++i) text += "word " + std::to_string(i * i) + (i % 50 ? " " : "\n\n");
  return {text.substr(0, 500), text, "a\xff\u00e9\n\n\U0001F600 \t b"};
}

void read(std::string_view bytes) {
  static const Tokenizer tokenizer(TEST_DATA_DIR "/data_bpe.model");
  static ScratchFile file;
  file.put(bytes);
  DocumentReader reader({file.path()}, Separator::blank_line, /*replace_invalid=*/true);
  DocumentEncoder encoder(tokenizer, reader, 1, [](std::int64_t n) { return n % 2 == 1; });
  std::int64_t documents = 0;
  for (auto parts = encoder.next(); !parts.empty(); parts = encoder.next())
    for (const auto& part : parts) {
      documents += part.begins_document ? 1 : 0;
      if (part.bytes.size() != (documents % 2 == 0 ? part.tokens.size() : 0)) std::abort();
      for (const auto id : part.tokens)
        if (static_cast<int>(id) >= tokenizer.pieces()) std::abort();
    }
}

}  // namespace tg::fuzz
