#include "data/synthetic_tokens.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "config/data_config.h"
#include "data/splitmix64.h"

namespace tg {
namespace {

constexpr std::int64_t document_block = 1 << 20;  // tokens of a block, which begins with a document

// Uniform in [0, bound), from the upper 32 bits.
std::size_t scaled(std::uint64_t bits, std::size_t bound) {
  return ((bits >> 32) * bound) >> 32;
}

// Returns the id of each frequency rank, all ids but `without`. Not std::shuffle, whose result
// depends on the standard library.
std::vector<TokenId> shuffled_ids(std::size_t count, std::uint64_t seed, int without) {
  std::vector<TokenId> ids(count);
  std::iota(ids.begin(), ids.end(), TokenId{0});
  const std::uint64_t key = key_of(seed, "ids");
  for (std::size_t i = count; i > 1; --i) std::swap(ids[i - 1], ids[scaled(splitmix64(key, i), i)]);
  if (without >= 0) std::erase(ids, static_cast<TokenId>(without));
  return ids;
}

// Returns the probability of each frequency rank, in units of a column (their mean is 1).
std::vector<double> zipf_weights(std::size_t count) {
  std::vector<double> weights(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    weights[rank] = 1 / (static_cast<double>(rank) + 3);
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight *= static_cast<double>(count) / sum;
  return weights;
}

std::uint32_t threshold(double weight) {
  return static_cast<std::uint32_t>(std::min(std::floor(weight * 0x1p32), 0x1p32 - 1));
}

}  // namespace

SyntheticTokens::SyntheticTokens(std::string_view split, int vocab_size, std::uint64_t seed,
                                 int without)
    : pattern_(fmt::format("{} ({})", synthetic_zipf, split)),
      vocab_size_(vocab_size),
      total_(split == "val" ? synthetic_val_tokens : synthetic_train_tokens),
      key_(key_of(seed, split)) {
  assert(vocab_size > 0 && vocab_size <= kMaxPieces);
  const auto ids = shuffled_ids(static_cast<std::size_t>(vocab_size), seed, without);
  columns_.resize(ids.size());
  auto weights = zipf_weights(columns_.size());
  // A weight below 1 fills part of its column, and `large` fills the rest. Weights decrease with
  // the rank, so those below 1 are at the end, except `large` itself once it has filled enough
  // columns.
  std::size_t large = 0;
  const auto settle = [&](std::size_t rank, std::size_t rest) {
    columns_[rank] = {threshold(weights[rank]), ids[rank], ids[rest]};
    weights[rest] -= 1 - weights[rank];
  };
  for (std::size_t small = columns_.size() - 1; small > large; --small) {
    settle(small, large);
    for (; large + 1 < small && weights[large] < 1; ++large) settle(large, large + 1);
  }
  columns_[large] = {threshold(1), ids[large], ids[large]};
}

TokenId SyntheticTokens::token_at(std::int64_t position) const {
  const std::uint64_t bits = splitmix64(key_, static_cast<std::uint64_t>(position));
  const Column& column = columns_[scaled(bits, columns_.size())];
  return static_cast<std::uint32_t>(bits) < column.threshold ? column.below : column.above;
}

void SyntheticTokens::read_at(std::int64_t offset, const MutableIds& out) const {
  assert(offset >= 0);
  std::int64_t position = offset % total_;
  const auto fill = [&]<class Id>(std::span<Id> ids) {
    for (Id& id : ids) {
      id = static_cast<Id>(token_at(position));
      if (++position == total_) position = 0;
    }
  };
  std::visit(fill, out);
}

SyntheticDocuments::SyntheticDocuments(std::string_view split, int vocab_size, std::uint64_t seed,
                                       int bos_id)
    : SyntheticTokens(split, vocab_size, seed, bos_id),
      lengths_key_(key_of(seed, fmt::format("{} documents", split))),
      bos_id_(static_cast<TokenId>(bos_id)) {
  pattern_ = fmt::format("{} ({})", synthetic_documents, split);
  assert(vocab_size > 1 && bos_id >= 0 && bos_id < kMaxPieces);
}

// Draws a normal variate by the Box-Muller transform of two uniform variates.
std::int64_t SyntheticDocuments::length(std::int64_t block, std::uint64_t document) const {
  constexpr double median = 500, sigma = 1.14;
  const auto key = splitmix64(lengths_key_, static_cast<std::uint64_t>(block));
  const auto uniform = [&](std::uint64_t index) {  // in (0, 1]
    return static_cast<double>((splitmix64(key, index) >> 11) + 1) * 0x1p-53;
  };
  const double normal = std::sqrt(-2 * std::log(uniform(2 * document))) *
                        std::cos(2 * std::numbers::pi * uniform(2 * document + 1));
  return std::max<std::int64_t>(2, std::llround(median * std::exp(sigma * normal)));
}

void SyntheticDocuments::read_at(std::int64_t offset, const MutableIds& out) const {
  SyntheticTokens::read_at(offset, out);
  const auto pass = tokens(0);
  const auto write_bos = [&]<class Id>(std::span<Id> ids) {  // where documents begin
    while (!ids.empty()) {
      const auto position = offset % pass, block = position / document_block;
      const auto block_begin = block * document_block;
      const auto block_end = std::min(block_begin + document_block, pass);
      const auto end = std::min(position + std::ssize(ids), block_end);
      auto begin = block_begin;
      for (std::uint64_t document = 0; begin < end; begin += length(block, document++)) {
        if (begin >= position)
          ids[static_cast<std::size_t>(begin - position)] = static_cast<Id>(bos_id_);
      }
      ids = ids.subspan(static_cast<std::size_t>(end - position));
      offset += end - position;
    }
  };
  std::visit(write_bos, out);
}

}  // namespace tg
