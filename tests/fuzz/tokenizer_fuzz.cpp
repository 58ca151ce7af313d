// A tokenizer, the text that it encodes and decodes, and the bytes that its pieces stand for.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "data/byte_count.h"
#include "tests/fuzz/target.h"
#include "text/bpe_vocabulary.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  const auto gpt2 = nlohmann::json::parse(fixture("gpt2_tokens.json"));
  return {fixture("data_bpe.model"),
          fixture("data_odd.model"),
          fixture("data_exact.model"),
          fixture("data_words.model"),
          fixture("data_suffix.model"),
          fixture("data_caseops.model"),
          fixture("tokenizer_small.json"),
          fixture("tokenizer_nfc.json"),
          gpt2["merge_list"].get<std::string>(),
          gpt2["rank_table"].get<std::string>()};
}

void read(std::string_view bytes) {
  static ScratchFile file;
  file.put(bytes);
  const TokenizerChoices choices{.pattern = is_rank_table(bytes, "") ? "llama3" : ""};
  const Tokenizer tokenizer(file.path(), 0, /*caseops=*/false, choices);
  std::vector<TokenId> ids;
  for (const auto part :
       tokenizer.split("the licence of a file,\t\u00e9e\u0301\u1100\u1161\U0001F600  b", 4))
    tokenizer.encode_continued(part, ids);
  tokenizer.decode(ids);
  ids.insert(ids.begin(), 0);
  count_bytes(make_byte_table(tokenizer, 0), ids);
  const Tokenizer caseops(file.path(), 0, /*caseops=*/true, choices);  // of others an Error
  std::vector<std::uint16_t> counts;
  ids.clear();
  caseops.encode_counted("The NASA,\t\u00e9\ue001  xY", false, ids, counts);
  caseops.decode(ids);
  if (ids.size() != counts.size()) std::abort();
  ids.insert(ids.begin(), 0);
  count_bytes(make_byte_table(caseops, 0), ids);
}

}  // namespace tg::fuzz
