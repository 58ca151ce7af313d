#include "checkpoint/data_identity.h"

#include <fmt/format.h>

#include "files/xxh3.h"
#include "text/tokenizer.h"

namespace tg {

FixedTexts data_identity(const DataConfig& data, const TokenSource& training) {
  FixedTexts identity{{kTrainingData, training.identity()}};
  if (data.tokenizer_path.empty()) return identity;
  const auto bytes = read_tokenizer_file(data.tokenizer_path);
  Xxh3 digest;
  digest.add(bytes.data(), bytes.size());
  const auto& pattern = data.tokenizer_pattern;
  identity["tokenizer"] = fmt::format("{} bytes, digest {:016x}{}", bytes.size(), digest.value(),
                                      pattern.empty() ? "" : ", pattern " + pattern);
  return identity;
}

}  // namespace tg
