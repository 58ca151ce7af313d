// A merge list and the vocab.json beside it, with a zero byte between them.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "data/byte_count.h"
#include "files/atomic_file.h"
#include "tests/fuzz/target.h"
#include "text/byte_spelling.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  nlohmann::json ids = {{"<|endoftext|>", 0}, {"ab", 300}, {"abc", 301}};
  for (std::size_t i = 0; i < 256; ++i)
    ids[spelled(std::string{static_cast<char>(bytes_in_order()[i])})] = i + 1;
  return {std::string("#version: 0.2\na b\nab c\n") + '\0' + ids.dump()};
}

void read(std::string_view bytes) {
  static ScratchFile merges("merges.txt");
  const auto path = merges.folder() + "/vocab.json";
  const auto zero = std::min(bytes.find('\0'), bytes.size());
  merges.put(bytes.substr(0, zero));
  write_file_atomically(path, bytes.substr(std::min(zero + 1, bytes.size())));
  const Tokenizer tokenizer(merges.path());
  const std::string text = "abc the licence\t\u00e9";
  std::vector<TokenId> ids;
  tokenizer.encode(text, ids);
  if (tokenizer.decode(ids) != text) std::abort();
  ids.insert(ids.begin(), 0);
  count_bytes(make_byte_table(tokenizer, 0), ids);
}

}  // namespace tg::fuzz
