#pragma once
// Device code shared by all kernels: 16-byte vector accesses, warp reductions, dispatch by dtype.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "device/launch.h"

namespace tg::cuda {

constexpr int kWarp = 32;
constexpr int kAccessBytes = 16;
constexpr float kNormEpsilon = 1.1920929e-07f;  // same as in ops/norm/rms_norm.cpp

// Unpacks and packs a pair of T (bf16 or fp16) in a 32-bit word; the first element is the low half.
template <typename T>
__device__ inline float low_of(unsigned pair) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __uint_as_float(pair << 16);
  else
    return __half2float(__ushort_as_half(pair & 0xffffu));
}
template <typename T>
__device__ inline float high_of(unsigned pair) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __uint_as_float(pair & 0xffff0000u);
  else
    return __half2float(__ushort_as_half(pair >> 16));
}
template <typename T>
__device__ inline unsigned rounded_pair(float low, float high) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const unsigned&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const unsigned&>(pair);
  }
}

// A vector of kSize elements in registers, read as fp32; by default one 16-byte access. Stored as
// 32-bit words, so that the compiler neither unpacks each element into its own register nor splits
// the access.
template <typename T, int kSize = kAccessBytes / sizeof(T)>
struct Pack {
  static constexpr int size = kSize;
  static constexpr int word_count = kSize * sizeof(T) / sizeof(unsigned);
  static_assert(word_count == 2 || word_count % 4 == 0,
                "not a multiple of an 8- or 16-byte access");
  unsigned words[word_count];

  __device__ static Pack rounded(const float (&values)[kSize]) {
    Pack pack;
#pragma unroll
    for (int w = 0; w < word_count; ++w) {
      if constexpr (std::is_same_v<T, float>) {
        pack.words[w] = __float_as_uint(values[w]);
      } else {
        pack.words[w] = rounded_pair<T>(values[2 * w], values[2 * w + 1]);
      }
    }
    return pack;
  }
  __device__ float operator[](int i) const {
    if constexpr (std::is_same_v<T, float>) {
      return __uint_as_float(words[i]);
    } else {
      return i % 2 == 0 ? low_of<T>(words[i / 2]) : high_of<T>(words[i / 2]);
    }
  }
};

template <typename T, int kSize = kAccessBytes / sizeof(T)>
__device__ inline Pack<T, kSize> load_pack(const T* at) {
  Pack<T, kSize> pack;
  if constexpr (pack.word_count == 2) {
    const uint2 access = *reinterpret_cast<const uint2*>(at);
    pack.words[0] = access.x, pack.words[1] = access.y;
  } else {
#pragma unroll
    for (int w = 0; w < pack.word_count; w += 4) {
      const uint4 access = reinterpret_cast<const uint4*>(at)[w / 4];
      pack.words[w] = access.x, pack.words[w + 1] = access.y;
      pack.words[w + 2] = access.z, pack.words[w + 3] = access.w;
    }
  }
  return pack;
}
// __stwb has the cache policy of a plain store, but the compiler never splits it.
template <typename T, int kSize>
__device__ inline void store_pack(T* to, const Pack<T, kSize>& pack) {
  const auto& words = pack.words;
  if constexpr (pack.word_count == 2) {
    __stwb(reinterpret_cast<uint2*>(to), make_uint2(words[0], words[1]));
  } else {
#pragma unroll
    for (int w = 0; w < pack.word_count; w += 4)
      __stwb(reinterpret_cast<uint4*>(to) + w / 4,
             make_uint4(words[w], words[w + 1], words[w + 2], words[w + 3]));
  }
}
template <typename T, int kSize>
__device__ inline void store_rounded(T* to, const float (&values)[kSize]) {
  store_pack(to, Pack<T, kSize>::rounded(values));
}

// 2^x by one instruction, with a relative error of 2^-22.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// √x by one instruction, with a relative error of 2^-23.
__device__ inline float approximate_sqrt(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Sums over each group of `lanes` consecutive lanes; every lane gets its group's sum. All lanes of
// the warp must call it.
template <int lanes = kWarp>
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffff, value, distance);
  return value;
}

// Calls op(T{}) with the element type T of `dtype`.
template <typename Op>
void dispatch(Dtype dtype, Op op) {
  switch (dtype) {
    case Dtype::fp32:
      return op(float{});
    case Dtype::bf16:
      return op(__nv_bfloat16{});
    case Dtype::fp16:
      return op(__half{});
  }
}

// Calls op(T{}) with __half or __nv_bfloat16.
template <typename Op>
void dispatch_half(Dtype dtype, Op op) {
  if (dtype == Dtype::fp16) return op(__half{});
  op(__nv_bfloat16{});
}

// Call after each launch. Throws std::runtime_error with the kernel's name if the launch failed.
inline void check_launch(const char* kernel) {
  const auto error = cudaGetLastError();
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(kernel) + ": " + cudaGetErrorString(error));
}

}  // namespace tg::cuda
