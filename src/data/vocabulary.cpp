#include "data/vocabulary.h"

#include "text/tokenizer.h"

namespace tg {

Vocabulary read_vocabulary(const DataConfig& data, int vocab_size) {
  Vocabulary vocabulary{.pieces = vocab_size};
  if (data.tokenizer_path.empty()) return vocabulary;
  const Tokenizer tokenizer(data.tokenizer_path, vocab_size);
  vocabulary.pieces = tokenizer.pieces();
  vocabulary.format = tokenizer.format();
  vocabulary.normalisation = tokenizer.normalisation();
  vocabulary.bytes = make_byte_table(tokenizer, vocab_size);
  return vocabulary;
}

}  // namespace tg
