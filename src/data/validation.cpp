#include "data/validation.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"

namespace tg {

ValidationTokens::ValidationTokens(const std::string& dir, int vocab_size, std::int64_t train_len,
                                   std::int64_t eval_len, std::int64_t val_tokens)
    : shards_(dir, "val", vocab_size) {
  const std::int64_t longest = std::max(train_len, eval_len);
  std::int64_t available = shards_.total_tokens() - 1;
  if (val_tokens > 0) available = std::min(available, val_tokens);
  predictions_ = available / longest * longest;
  REQUIRE(predictions_ > 0, ExitCode::bad_data,
          "the validation split {} is too short (expected at least {} tokens, found {}); lower "
          "TRAIN_SEQ_LEN and EVAL_SEQ_LEN or raise VAL_TOKENS",
          shards_.pattern(), longest + 1, available + 1);
}

void ValidationTokens::read_sequences(std::int64_t first, std::int64_t count, std::int64_t seq_len,
                                      std::span<std::uint16_t> out) const {
  assert(std::ssize(out) == count * seq_len + 1);
  read(first * seq_len, out);
}

void ValidationTokens::read(std::int64_t begin, std::span<std::uint16_t> out) const {
  assert(begin >= 0 && begin + std::ssize(out) <= predictions_ + 1);
  shards_.read_at(begin, out);
}

}  // namespace tg
