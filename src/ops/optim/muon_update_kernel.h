#pragma once
#include "device/launch.h"

namespace tg::cuda {

// See muon_update.h. Addresses are multiples of 16 bytes; scalars are on the device.
struct NesterovMomentum {
  void* momentum;
  const void* gradient;
  void* ahead;
  std::int64_t count;
  const float *mu, *clip;
  const bool* skip;
};
void nesterov_momentum(const NesterovMomentum& of, Float momentum, Float gradient, Stream stream);

void decayed_step(float* parameters, const void* update, std::int64_t count, const float* rate,
                  float decay, float scale, Float number, Stream stream);

}  // namespace tg::cuda
