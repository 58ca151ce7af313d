#pragma once
#include "device/launch.h"

namespace tg::cuda {

// The largest cap that these kernels take. They need no row maximum: a weight is exp(s − cap), at
// least e^(−2·cap), and up to this cap the ratio of a row's sum to its smallest weight fits fp32.
constexpr double kMaxSoftcap = 35;

// Logits [rows, width], contiguous, at an address that is a multiple of 16 bytes, of which the
// first `vocab` columns count, and targets [rows].
struct SoftcapRows {
  void* logits;
  const std::int64_t* targets;
  std::int64_t rows;
  int width, vocab;
  float cap;
  Dtype dtype;
};

// Kernels of ops/loss/softcap_cross_entropy.h. nll [rows]; NaN where the target is not in [0,
// vocab).
void softcap_nll(const SoftcapRows& of, float* nll, Stream stream);
// What multiplies the gradient of a row's loss before it is rounded.
struct GradientScale {
  float host = 0;
  const float* device = nullptr;  // one number, which changes from step to step; null: 1
  const float* row = nullptr;     // of each row, on the device; null: 1
};
// softcap_nll(), and overwrites the logits with the gradient of Σ nll, so scaled; zero beyond
// `vocab`.
void softcap_nll_and_gradient(const SoftcapRows& of, float* nll, const GradientScale& scale,
                              Stream stream);

// x *= *factor, `factor` on the device; does not touch x where it is 1.
void scale_in_place(void* x, std::int64_t count, const float* factor, Dtype dtype, Stream stream);

}  // namespace tg::cuda
