#include "data/numpy_random.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <numeric>
#include <utility>

namespace tg {
namespace {

// 32-bit multiplicative hash whose multiplier changes with each call, as in SeedSequence (after
// O'Neill's seed_seq_fe).
class Hash {
 public:
  Hash(std::uint32_t initial, std::uint32_t multiplier)
      : constant_(initial), multiplier_(multiplier) {}

  std::uint32_t operator()(std::uint32_t value) {
    value ^= constant_;
    constant_ *= multiplier_;
    value *= constant_;
    return value ^ (value >> 16);
  }

 private:
  std::uint32_t constant_, multiplier_;
};

std::uint32_t mix(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t mixed = 0xca01f9dd * x - 0x4973f715 * y;
  return mixed ^ (mixed >> 16);
}

// SeedSequence(seed).generate_state(4, uint64).
std::array<std::uint64_t, 4> seed_words(std::uint64_t seed) {
  std::array<std::uint32_t, 4> pool{};
  Hash mixing(0x43b0d7e5, 0x931e8875);
  const std::uint32_t entropy[] = {static_cast<std::uint32_t>(seed),
                                   static_cast<std::uint32_t>(seed >> 32), 0, 0};
  for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = mixing(entropy[i]);
  for (std::size_t from = 0; from < pool.size(); ++from) {
    for (std::size_t to = 0; to < pool.size(); ++to) {
      if (from != to) pool[to] = mix(pool[to], mixing(pool[from]));
    }
  }
  std::array<std::uint64_t, 4> words{};
  Hash drawing(0x8b51f9dd, 0x58f38ded);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t low = drawing(pool[2 * i % pool.size()]);
    const std::uint64_t high = drawing(pool[(2 * i + 1) % pool.size()]);
    words[i] = high << 32 | low;
  }
  return words;
}

}  // namespace

NumpyRandom::NumpyRandom(std::uint64_t seed) {
  const auto words = seed_words(seed);
  const auto join = [](std::uint64_t high, std::uint64_t low) {
    return static_cast<Uint128>(high) << 64 | low;
  };
  increment_ = join(words[2], words[3]) << 1 | 1;
  step();
  state_ += join(words[0], words[1]);
  step();
}

void NumpyRandom::step() {
  constexpr auto multiplier = static_cast<Uint128>(0x2360ed051fc65da4) << 64 | 0x4385df649fccf645;
  state_ = state_ * multiplier + increment_;
}

std::uint64_t NumpyRandom::next64() {
  step();
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

std::uint32_t NumpyRandom::next32() {
  if (kept_half_) return *std::exchange(kept_half_, std::nullopt);
  const auto both = next64();
  kept_half_ = static_cast<std::uint32_t>(both >> 32);
  return static_cast<std::uint32_t>(both);
}

std::uint32_t NumpyRandom::integers(std::uint32_t high) {
  assert(high >= 1);
  if (high == 1) return 0;
  // Rejects products whose low half is below 2³² mod high, which would bias the result.
  const std::uint32_t rejected = (0 - high) % high;
  while (true) {
    const auto product = static_cast<std::uint64_t>(next32()) * high;
    if (static_cast<std::uint32_t>(product) >= rejected)
      return static_cast<std::uint32_t>(product >> 32);
  }
}

std::uint32_t NumpyRandom::interval(std::uint32_t max) {
  const std::uint32_t mask = ~std::uint32_t{0} >> std::countl_zero(max);
  while (true) {
    const auto drawn = next32() & mask;
    if (drawn <= max) return drawn;
  }
}

std::vector<std::uint32_t> NumpyRandom::permutation(std::uint32_t n) {
  std::vector<std::uint32_t> shuffled(n);
  std::iota(shuffled.begin(), shuffled.end(), std::uint32_t{0});
  for (std::uint32_t i = n; i-- > 1;) std::swap(shuffled[i], shuffled[interval(i)]);
  return shuffled;
}

std::size_t NumpyRandom::choice(std::span<const double> p) {
  assert(!p.empty());
  std::vector<double> cumulative(p.size());
  std::partial_sum(p.begin(), p.end(), cumulative.begin());
  const double sum = cumulative.back();
  for (auto& value : cumulative) value /= sum;
  return static_cast<std::size_t>(std::ranges::upper_bound(cumulative, random()) -
                                  cumulative.begin());
}

}  // namespace tg
