#include "data/vocabulary.h"

namespace tg {

Tokenizer make_tokenizer(const DataConfig& data, int vocab_size) {
  return Tokenizer(data.tokenizer_path, vocab_size, data.caseops_enabled);
}

Vocabulary read_vocabulary(const DataConfig& data, int vocab_size) {
  Vocabulary vocabulary{.pieces = vocab_size};
  if (data.tokenizer_path.empty()) return vocabulary;
  const auto tokenizer = make_tokenizer(data, vocab_size);
  vocabulary.pieces = tokenizer.pieces();
  vocabulary.format = tokenizer.format();
  vocabulary.normalisation = tokenizer.normalisation();
  vocabulary.bytes = {.table = make_byte_table(tokenizer, vocab_size),
                      .bos_id = tokenizer.bos_id()};
  return vocabulary;
}

}  // namespace tg
