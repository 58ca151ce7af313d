#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <random>

namespace tg {

struct SamplingOptions {
  double temperature = 0.8;  // 0: always the likeliest token
  std::int64_t top_k = 0;    // only the k likeliest; 0: all
  double top_p = 1.0;  // only the likeliest whose probabilities add up to p (Holtzman et al. 2020)
  std::uint64_t seed = 1337;
};

// Draws tokens from softmax(logits / temperature), cut to top-k, then to top-p. The same seed and
// logits give the same tokens on every machine.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}

  // logits [V], any floating dtype and device → the id drawn. Waits for the device.
  std::int64_t draw(const at::Tensor& logits_v);

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
};

}  // namespace tg
