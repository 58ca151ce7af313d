#pragma once
// Random tokens, for runs where only speed and a falling loss matter. They are independent and
// follow Zipf's law: the k-th most frequent id has weight 1 / (k + 3), k from 0. A token is a
// function of seed, split and position alone, so any position can be read directly.
#include <algorithm>
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

// Independent tokens, without documents.
class SyntheticTokens : public TokenSource {
 public:
  // `split` is "train" or "val". The seed assigns frequencies to ids, equally in both splits.
  // `without`: an id that does not occur; -1: none.
  SyntheticTokens(std::string_view split, int vocab_size, std::uint64_t seed, int without = -1);

  const std::string& pattern() const override { return pattern_; }
  // Complete with VOCAB_SIZE, SEED and BOS_ID.
  std::string identity() const override { return pattern_; }
  std::int64_t tokens(int) const override { return total_; }
  std::int64_t tokens_up_to(std::int64_t limit) const override { return std::min(limit, total_); }

  int id_bytes() const override { return id_bytes_below(vocab_size_); }
  void read_at(std::int64_t offset, const MutableIds& out) const override;

 protected:
  std::string pattern_;

 private:
  // Walker's alias method: every column is equally likely and holds two ids.
  struct Column {
    std::uint32_t threshold = 0;  // selects `below` if 32 random bits are less, else `above`
    TokenId below = 0, above = 0;
  };

  TokenId token_at(std::int64_t position) const;

  int vocab_size_;
  std::int64_t total_;
  std::uint64_t key_;
  std::vector<Column> columns_;  // one per id
};

// Synthetic tokens in documents, each of which begins with BOS, which occurs nowhere else. The
// lengths are log-normal like FineWeb's: median 500, σ of the logarithm 1.14, hence mean 958. A
// document begins at every multiple of 2^20 tokens, so that any position can be read directly.
class SyntheticDocuments final : public SyntheticTokens {
 public:
  // bos_id is below vocab_size, which is at least 2.
  SyntheticDocuments(std::string_view split, int vocab_size, std::uint64_t seed, int bos_id);

  int id_bytes() const override {
    return std::max(SyntheticTokens::id_bytes(), id_bytes_below(std::int64_t{bos_id_} + 1));
  }
  void read_at(std::int64_t offset, const MutableIds& out) const override;

 private:
  std::int64_t length(std::int64_t block, std::uint64_t document) const;

  std::uint64_t lengths_key_;
  TokenId bos_id_;
};

}  // namespace tg
