#pragma once
// Random tokens, for runs where only speed and a falling loss matter. They are independent and
// follow Zipf's law: the k-th most frequent id has weight 1 / (k + 3), k from 0.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/token_source.h"

namespace tg {

// More than any run reads, so that no token repeats.
inline constexpr std::int64_t synthetic_train_tokens = 10'000'000'000;
// The 10,485,760 predictions of the GPT-124M speedrun's validation, and one token before them.
inline constexpr std::int64_t synthetic_val_tokens = 10'485'761;

// A token is a function of seed, split and position alone, so any position can be read directly.
class SyntheticTokens final : public TokenSource {
 public:
  // split "train" or "val". The seed shuffles which id has which frequency, the same in both
  // splits.
  SyntheticTokens(std::string_view split, int vocab_size, std::uint64_t seed);

  const std::string& pattern() const override { return pattern_; }
  std::string identity() const override { return pattern_; }  // besides VOCAB_SIZE and SEED
  std::int64_t tokens(int) const override { return total_; }
  std::int64_t tokens_up_to(std::int64_t limit) const override;

  void read_at(std::int64_t offset, std::span<std::uint16_t> out) const override;

 private:
  // Walker's alias method: every column is equally likely and holds two ids.
  struct Column {
    std::uint32_t threshold = 0;  // `below` if 32 random bits are less, else `above`
    std::uint16_t below = 0, above = 0;
  };

  std::uint16_t token_at(std::int64_t position) const;

  std::string pattern_;
  std::int64_t total_;
  std::uint64_t key_;
  std::vector<Column> columns_;  // one for each id
};

}  // namespace tg
