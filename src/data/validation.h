#pragma once
// The validation split as one run of tokens, cut into sequences of the length that a score asks
// for.
#include <cstdint>
#include <span>
#include <string>

#include "data/shard.h"

namespace tg {

// Reading is const and safe from any number of threads at once.
class ValidationTokens {
 public:
  // Keeps k * max(train_len, eval_len) + 1 tokens, as many as there are or, when val_tokens > 0, as
  // val_tokens predictions allow. eval_len 0: as training.
  // Errors: those of ShardSet; bad_data when not even one sequence is there.
  ValidationTokens(const std::string& dir, int vocab_size, std::int64_t train_len,
                   std::int64_t eval_len, std::int64_t val_tokens);

  const ShardSet& shards() const { return shards_; }
  std::int64_t predictions() const {
    return predictions_;
  }  // tokens that are predicted: all but one
  std::int64_t sequences(std::int64_t seq_len) const { return predictions_ / seq_len; }
  // count sequences of seq_len from number `first` on; out: [count * seq_len + 1].
  void read_sequences(std::int64_t first, std::int64_t count, std::int64_t seq_len,
                      std::span<std::uint16_t> out) const;
  // Any tokens [begin, begin + out.size()) within the predictions() + 1 that are kept.
  void read(std::int64_t begin, std::span<std::uint16_t> out) const;

 private:
  ShardSet shards_;
  std::int64_t predictions_;
};

}  // namespace tg
