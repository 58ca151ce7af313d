#pragma once
#include "device/launch.h"

namespace tg::cuda {

// The largest cap these kernels take. A weight is exp(s − cap), at least e^(−2·cap): no maximum is
// looked for, and up to here the ratio of a row's sum to its smallest weight stays within fp32.
constexpr double kMaxSoftcap = 35;

// The logits [rows, vocab], one row behind the other, from an address that is a multiple of 16
// bytes, and their targets [rows].
struct SoftcapRows {
  void* logits;
  const std::int64_t* targets;
  std::int64_t rows;
  int vocab;
  float cap;
  Float number;
};

// See softcap_cross_entropy.h: nll [rows]; NaN where the target is no column.
void softcap_nll(const SoftcapRows& of, float* nll, Stream stream);
// The same; the gradient of scale·Σ nll takes the logits' place.
void softcap_nll_and_gradient(const SoftcapRows& of, float* nll, float scale, Stream stream);

// x ·= *factor. Reads the factor alone where it is 1.
void scale_in_place(void* x, std::int64_t count, const float* factor, Float number, Stream stream);

}  // namespace tg::cuda
