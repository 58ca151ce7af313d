#pragma once
// What a tokenizer encodes a text to, and how it refuses a file.
#include <string>
#include <string_view>
#include <vector>

#include "tests/files/testing.h"
#include "text/tokenizer.h"

namespace tg::test {

using Ids = std::vector<TokenId>;

inline Ids encode(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

inline std::string refusal(const std::string& name, const std::string& content,
                           ExitCode code = ExitCode::bad_data) {
  const TempDir dir;
  write_file(dir / name, content);
  const auto message = error_of(code, [&] { Tokenizer{dir / name}; });
  expect_start(message, "tokenizer " + dir / name);
  return message.substr(("tokenizer " + dir / name).size());
}

}  // namespace tg::test
