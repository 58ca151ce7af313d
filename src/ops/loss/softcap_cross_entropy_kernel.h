#pragma once
#include "device/launch.h"
#include "ops/loss/softcap.h"

namespace tg::cuda {

// Largest cap that these kernels support. They need no row maximum: softmax weights exp(s − cap)
// are at least e^(−2·cap), and up to this cap the ratio of a row's sum to its smallest weight is
// representable in fp32.
constexpr double kMaxSoftcap = 35;

// Logits [rows, width], contiguous and 16-byte aligned, of which only the first `vocab` columns are
// used, and targets [rows].
struct SoftcapRows {
  void* logits;
  const std::int64_t* targets;
  std::int64_t rows;
  int width, vocab;
  tg::Softcap softcap;
  Dtype dtype;
};

// Kernels of ops/loss/softcap_cross_entropy.h. Computes nll [rows]; NaN if the target is not in [0,
// vocab).
void softcap_nll(const SoftcapRows& rows, float* nll, Stream stream);
// Factors of the gradient of a row's loss, applied before rounding.
struct GradientScale {
  float host = 0;
  const float* device = nullptr;  // device scalar, which changes from step to step; null: 1
  const float* row = nullptr;     // [rows] on the device; null: 1
};
// Computes nll and overwrites the logits with the scaled gradient of Σ nll; zero beyond `vocab`.
void softcap_nll_and_gradient(const SoftcapRows& rows, float* nll, const GradientScale& scale,
                              Stream stream);

// Computes x *= *factor with `factor` on the device; does not access x if it is 1.
void scale_in_place(void* x, std::int64_t count, const float* factor, Dtype dtype, Stream stream);

}  // namespace tg::cuda
