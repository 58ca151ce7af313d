// A tokenizer, and the text that it encodes and decodes.
#include <nlohmann/json.hpp>

#include "data/tokenizer.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  const auto gpt2 = nlohmann::json::parse(fixture("gpt2_tokens.json"));
  return {fixture("data_bpe.model"), fixture("data_odd.model"), fixture("data_exact.model"),
          gpt2["merge_list"].get<std::string>(), gpt2["rank_table"].get<std::string>()};
}

void read(std::string_view bytes) {
  static ScratchFile file;
  file.put(bytes);
  const Tokenizer tokenizer(file.path());
  std::vector<std::uint16_t> ids;
  for (const auto part : tokenizer.split("the licence of a file,\t\u00e9\U0001F600  b", 4))
    tokenizer.encode_continued(part, ids);
  tokenizer.decode(ids);
}

}  // namespace tg::fuzz
