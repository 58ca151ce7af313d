#pragma once
// leaky_relu_squared from x, and its derivative from the activation u² and the sign of x:
// du²/dx = 2u·u', where |u| = √(u²), and u' is the slope if x is negative.
#include "device/launch.h"

namespace tg::cuda {

__device__ inline float approximate_sqrt(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float activation_of(float x, float slope) {
  const float u = x > 0 ? x : slope * x;
  return u * u;
}
__device__ inline float activation_slope(float activation, bool negative, float slope) {
  return approximate_sqrt(activation) * (negative ? -2 * fabsf(slope) : 2);
}

}  // namespace tg::cuda
