#include "data/vocabulary.h"

#include "config/mode.h"

namespace tg {
namespace {

constexpr int gpt2_bos = 50256, usual_bos = 1;  // of SentencePiece models

}  // namespace

Tokenizer make_tokenizer(const DataConfig& data, int vocab_size) {
  return Tokenizer(data.tokenizer_path, vocab_size, data.caseops_enabled);
}

Vocabulary read_vocabulary(const DataConfig& data, int vocab_size) {
  Vocabulary vocabulary{.pieces = vocab_size,
                        .bos_id = vocab_size > gpt2_bos ? gpt2_bos : usual_bos};
  if (!data.bos_id.automatic) vocabulary.bos_id = static_cast<int>(data.bos_id.count);
  if (data.tokenizer_path.empty()) return vocabulary;
  const auto tokenizer = make_tokenizer(data, vocab_size);
  vocabulary.pieces = tokenizer.pieces();
  vocabulary.format = tokenizer.format();
  vocabulary.normalisation = tokenizer.normalisation();
  vocabulary.bytes = {.table = make_byte_table(tokenizer, vocab_size),
                      .bos_id = tokenizer.bos_id()};
  if (data.bos_id.automatic && tokenizer.bos_id() >= 0) vocabulary.bos_id = tokenizer.bos_id();
  return vocabulary;
}

void resolve_bos_id(Settings& settings) {
  auto& bos_id = settings.data.bos_id;
  if (!bos_id.automatic || mode::reads_no_bos_id(settings)) return;
  const auto vocab_size = static_cast<int>(settings.model.vocab_size);
  bos_id = {.count = read_vocabulary(settings.data, vocab_size).bos_id};
}

}  // namespace tg
