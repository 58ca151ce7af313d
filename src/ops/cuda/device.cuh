#pragma once
// What the kernels share: numbers in packs of 16 bytes, sums over a warp and a block, the choice of
// a type.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <string>

#include "ops/cuda/launch.h"

namespace tg::cuda {

constexpr int kWarp = 32;
constexpr int kAccessBytes = 16;

// One access of a thread: as many numbers as fit in 16 bytes, computed with in fp32.
template <typename T>
struct alignas(kAccessBytes) Pack {
  static constexpr int size = kAccessBytes / sizeof(T);
  T values[size];

  __device__ float operator[](int i) const { return static_cast<float>(values[i]); }
  __device__ void set(int i, float value) { values[i] = static_cast<T>(value); }
};

template <typename T>
__device__ inline Pack<T> load_pack(const T* at) {
  return *reinterpret_cast<const Pack<T>*>(at);
}
template <typename T>
__device__ inline void store_pack(T* at, const Pack<T>& pack) {
  *reinterpret_cast<Pack<T>*>(at) = pack;
}

// Over the lanes of a warp; every lane has the result.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
    value += __shfl_xor_sync(0xffffffff, value, lanes);
  return value;
}
__device__ inline float warp_max(float value) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, lanes));
  return value;
}

// op(T{}) with T the type that `number` names.
template <typename Op>
void dispatch(Float number, Op op) {
  switch (number) {
    case Float::fp32:
      return op(float{});
    case Float::bf16:
      return op(__nv_bfloat16{});
    case Float::fp16:
      return op(__half{});
  }
}

// After each launch. Errors: std::runtime_error, for what CUDA refuses.
inline void check_launch(const char* kernel) {
  const auto error = cudaGetLastError();
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(kernel) + ": " + cudaGetErrorString(error));
}

}  // namespace tg::cuda
