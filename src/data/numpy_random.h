#pragma once
// Random numbers of NumPy's Generator(PCG64(seed)), that is numpy.random.default_rng(seed):
// O'Neill's PCG64 with XSL-RR output (PCG: A Family of Simple Fast Space-Efficient Statistically
// Good Algorithms, 2014), seeded through NumPy's SeedSequence.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tg {

class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint64_t seed);

  std::uint64_t next64();
  // Returns the low half of a next64(), and at the next call its high half.
  std::uint32_t next32();

  // Generator.random(): a multiple of 2⁻⁵³ in [0, 1).
  double random() { return static_cast<double>(next64() >> 11) * 0x1p-53; }
  // Generator.integers(high): uniform in [0, high), high ≥ 1, by multiplication and shift (Lemire,
  // Fast Random Integer Generation in an Interval, 2019). Draws nothing if high is 1.
  std::uint32_t integers(std::uint32_t high);
  // Generator.permutation(n): 0 … n − 1, shuffled (Fisher-Yates from the end).
  std::vector<std::uint32_t> permutation(std::uint32_t n);
  // Generator.choice(p.size(), p=p): i with probability p[i]. Precondition: p ≥ 0 with a sum of
  // about 1.
  std::size_t choice(std::span<const double> p);

 private:
  __extension__ using Uint128 = unsigned __int128;

  // Uniform in [0, max], by rejection: draws masked to the bits of max until one is at most max.
  std::uint32_t interval(std::uint32_t max);
  void step();

  Uint128 state_ = 0, increment_;
  std::optional<std::uint32_t> kept_half_;
};

}  // namespace tg
