#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Kernels of ops/optim/muon_update.h. Addresses are multiples of 16 bytes; scalars are on the
// device.
struct NesterovMomentum {
  void* momentum;        // b, updated in place
  const void* gradient;  // g
  void* lookahead;       // the result μ·b + c·g, in b's dtype
  std::int64_t count;    // elements of each
  const float *mu, *clip;
  const bool* skip;
};
void nesterov_momentum(const NesterovMomentum& args, Dtype momentum_dtype, Dtype gradient_dtype,
                       Stream stream);

// `dtype`: of `update`.
void decayed_step(float* parameters, const void* update, std::int64_t count, const float* rate,
                  float decay, float scale, Dtype dtype, Stream stream);

}  // namespace tg::cuda
