#include "text/tokenizer.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "files/file.h"
#include "text/bpe_vocabulary.h"
#include "text/byte_level_bpe.h"
#include "text/sentencepiece_model.h"

namespace tg {
namespace {

constexpr std::int64_t largest_model = std::int64_t{1} << 30;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 && c > 0;
}

std::unique_ptr<const TokenizerModel> open_model(const std::string& path) {
  const std::string bytes = read_tokenizer_file(path);
  if (auto vocabulary = read_bpe_vocabulary(bytes, path))
    return std::make_unique<ByteLevelBpe>(*std::move(vocabulary));
  REQUIRE(
      !bytes.starts_with('{'), ExitCode::bad_data,
      "tokenizer {} is JSON (expected a SentencePiece model, GPT-2's vocab.bpe or merges.txt, or "
      "a .tiktoken table); give the merges.txt that is published beside it",
      path);
  return std::make_unique<SentencePieceModel>(bytes, path);
}

}  // namespace

std::string read_tokenizer_file(const std::string& path) {
  std::string bytes = read_whole_file(path, largest_model);
  REQUIRE(!bytes.empty(), ExitCode::bad_data,
          "tokenizer {} is empty (expected a vocabulary, found 0 bytes)", path);
  return bytes;
}

Tokenizer::Tokenizer(const std::string& path, int vocab_size)
    : path_(path), model_(open_model(path)) {
  const int count = pieces();
  const bool padded = byte_level() && vocab_size > count;
  REQUIRE(
      vocab_size == 0 || vocab_size == count || padded, ExitCode::config,
      "VOCAB_SIZE={} does not match tokenizer vocab_size={}; set VOCAB_SIZE={} or choose another "
      "TOKENIZER_PATH than {}",
      vocab_size, count, count, path);
}

std::vector<std::string_view> Tokenizer::split(std::string_view text, std::size_t size) const {
  std::vector<std::string_view> parts;
  std::size_t at = std::max<std::size_t>(size, 1);
  while (model_->splittable() && at + 1 < text.size()) {
    if (text[at] == ' ' && is_word(text[at - 1]) && is_word(text[at + 1])) {
      parts.push_back(text.substr(0, at));
      text.remove_prefix(at);
      at = std::max<std::size_t>(size, 1);
    } else {
      ++at;
    }
  }
  parts.push_back(text);
  return parts;
}

}  // namespace tg
