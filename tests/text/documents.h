#pragma once
// The documents of tests/fixtures/documents.py, and by one tokenizer the digest of their ids and
// the number of their bytes.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/byte_count.h"
#include "tests/files/testing.h"

namespace tg::test {

inline std::string document(const std::vector<std::string>& texts, std::size_t n) {
  constexpr const char* between[] = {" ", "\n", "", "  "};
  std::string joined;
  for (std::size_t k = 0; k < 1 + n % 5; ++k) {
    if (k > 0) joined += between[n % 4];
    joined += texts[(7919 * n + 104729 * k) % texts.size()];
  }
  return joined;
}

inline nlohmann::json digest_of_documents(const Tokenizer& tokenizer) {
  const auto told =
      nlohmann::json::parse(read_file(std::string(TEST_DATA_DIR) + "/gpt2_tokens.json"));
  std::vector<std::string> texts;
  for (const auto& sample : told["samples"]) {
    const auto text = sample["text"].get<std::string>();
    if (text.find(std::string(20, ' ')) == std::string::npos) texts.push_back(text);
  }
  const auto table = make_byte_table(tokenizer, 0);
  const auto bos = static_cast<TokenId>(tokenizer.bos_id());
  std::size_t tokens = 0;
  std::int64_t bytes = 0;
  std::uint64_t value = 0xcbf29ce484222325;
  const auto add = [&](TokenId number) {
    for (const int byte : {number & 0xff, number >> 8})
      value = (value ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  };
  std::vector<TokenId> ids;
  for (std::size_t n = 0; n < 3000; ++n) {
    ids.clear();
    tokenizer.encode(document(texts, n), ids);
    tokens += ids.size();
    add(static_cast<TokenId>(ids.size()));
    for (const auto id : ids) add(id);
    ids.insert(ids.begin(), bos);
    ids.push_back(bos);
    bytes += count_bytes(table, ids);
  }
  return {{"tokens", tokens}, {"fnv1a", fmt::format("{:016x}", value)}, {"bytes", bytes}};
}

}  // namespace tg::test
