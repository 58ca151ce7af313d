#include "data/synthetic_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

#include "data/splitmix64.h"

namespace tg {
namespace {

// Uniform in [0, bound), from the upper 32 bits.
std::size_t scaled(std::uint64_t bits, std::size_t bound) {
  return ((bits >> 32) * bound) >> 32;
}

// The id of each frequency rank. Not std::shuffle, whose result depends on the standard library.
std::vector<std::uint16_t> shuffled_ids(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint16_t> ids(count);
  std::iota(ids.begin(), ids.end(), std::uint16_t{0});
  const std::uint64_t key = key_of(seed, "ids");
  for (std::size_t i = count; i > 1; --i) std::swap(ids[i - 1], ids[scaled(splitmix64(key, i), i)]);
  return ids;
}

// Probability of each frequency rank, in units of a column (their mean is 1).
std::vector<double> zipf_shares(std::size_t count) {
  std::vector<double> shares(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    shares[rank] = 1 / (static_cast<double>(rank) + 3);
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share *= static_cast<double>(count) / sum;
  return shares;
}

std::uint32_t threshold(double share) {
  return static_cast<std::uint32_t>(std::min(std::floor(share * 0x1p32), 0x1p32 - 1));
}

}  // namespace

SyntheticTokens::SyntheticTokens(std::string_view split, int vocab_size, std::uint64_t seed)
    : pattern_(fmt::format("synthetic:zipf ({})", split)),
      total_(split == "val" ? synthetic_val_tokens : synthetic_train_tokens),
      key_(key_of(seed, split)),
      columns_(static_cast<std::size_t>(vocab_size)) {
  assert(vocab_size > 0 && vocab_size <= 1 << 16);
  const auto ids = shuffled_ids(columns_.size(), seed);
  auto shares = zipf_shares(columns_.size());
  // A share below 1 fills part of its column, and `large` fills the rest. Shares decrease with the
  // rank, so those below 1 are at the end, except `large` itself once it has filled enough columns.
  std::size_t large = 0;
  const auto settle = [&](std::size_t rank, std::size_t rest) {
    columns_[rank] = {threshold(shares[rank]), ids[rank], ids[rest]};
    shares[rest] -= 1 - shares[rank];
  };
  for (std::size_t small = columns_.size() - 1; small > large; --small) {
    settle(small, large);
    for (; large + 1 < small && shares[large] < 1; ++large) settle(large, large + 1);
  }
  columns_[large] = {threshold(1), ids[large], ids[large]};
}

std::int64_t SyntheticTokens::tokens_up_to(std::int64_t limit) const {
  return std::min(limit, total_);
}

std::uint16_t SyntheticTokens::token_at(std::int64_t position) const {
  const std::uint64_t bits = splitmix64(key_, static_cast<std::uint64_t>(position));
  const Column& column = columns_[scaled(bits, columns_.size())];
  return static_cast<std::uint32_t>(bits) < column.threshold ? column.below : column.above;
}

void SyntheticTokens::read_at(std::int64_t offset, std::span<std::uint16_t> out) const {
  assert(offset >= 0);
  std::int64_t position = offset % total_;
  for (std::uint16_t& token : out) {
    token = token_at(position);
    if (++position == total_) position = 0;
  }
}

}  // namespace tg
