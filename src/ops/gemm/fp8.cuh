#pragma once
// Quantization to FP8 with delayed scaling (ops/gemm/fp8.h), for kernels that write FP8 outputs.
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <type_traits>

#include "ops/gemm/fp8_kernel.h"
#include "ops/kernels.cuh"

namespace tg::cuda {

// Packs two values in FP8, the first in the low byte; saturates, keeps NaN.
template <typename Fp8 = __nv_fp8_e4m3>
__device__ unsigned fp8_pair(float low, float high) {
  constexpr auto format = std::is_same_v<Fp8, __nv_fp8_e5m2> ? __NV_E5M2 : __NV_E4M3;
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, format);
}
// Packs four, the first in the lowest byte.
template <typename Fp8 = __nv_fp8_e4m3>
__device__ unsigned fp8_quad(float a, float b, float c, float d) {
  return fp8_pair<Fp8>(a, b) | fp8_pair<Fp8>(c, d) << 16;
}
// Unpacks the two e4m3 values in the low half of a word.
__device__ inline float2 from_e4m3_pair(unsigned pair) {
  const auto halves =
      __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair), __NV_E4M3);
  return __half22float2(__half2(halves));
}

// Raises *amax to the largest value of the warp. The bits of non-negative floats are ordered like
// the floats, with NaN above all others, so that it propagates. `reads_first` avoids most atomics,
// since few warps raise the maximum, but makes the warp wait for a load.
__device__ inline void raise_amax(float* amax, float value, bool reads_first = true) {
  const unsigned largest = __reduce_max_sync(0xffffffff, __float_as_uint(value));
  if (threadIdx.x % kWarp == 0 &&
      (!reads_first || largest > *reinterpret_cast<volatile unsigned*>(amax)))
    atomicMax(reinterpret_cast<unsigned*>(amax), largest);
}
// Returns max(amax, |value|); NaN if either is.
__device__ inline float max_abs(float amax, float value) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(amax) : "f"(fabsf(value)));
  return amax;
}

// Packs a chunk of values value(i) in e4m3.
template <typename Value>
__device__ uint4 fp8_chunk(Value value) {
  unsigned words[kFp8Chunk / 4] = {};
#pragma unroll
  for (int i = 0; i < kFp8Chunk; i += 2)
    words[i / 4] |= fp8_pair(value(i), value(i + 1)) << 8 * (i % 4);
  return make_uint4(words[0], words[1], words[2], words[3]);
}
// Quantizes a chunk: elements times inverse_scale, and raises amax to the largest of |elements|.
template <typename T>
__device__ uint4 fp8_chunk(const Pack<T, kFp8Chunk>& x, float inverse_scale, float& amax) {
#pragma unroll
  for (int i = 0; i < kFp8Chunk; ++i) amax = max_abs(amax, x[i]);
  return fp8_chunk([&](int i) { return x[i] * inverse_scale; });
}

// Stores eight elements times `factor` in FP8 at `to`, and raises amax to the largest of
// |elements|.
template <typename Fp8, typename Elements>
__device__ void store_fp8(void* to, const Elements& elements, float factor, float& amax) {
  unsigned words[2] = {};
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    amax = max_abs(max_abs(amax, elements[i]), elements[i + 1]);
    words[i / 4] |= fp8_pair<Fp8>(elements[i] * factor, elements[i + 1] * factor) << 8 * (i % 4);
  }
  __stwb(static_cast<uint2*>(to), make_uint2(words[0], words[1]));
}

// Writes a thread's part of the FP8 copy of an output that it stores in packs. Quantizes the
// rounded elements, so that the copy has the same bits as to_fp8()'s. `writes` false: compiles to
// nothing.
template <bool writes>
class Fp8Writer {
 public:
  __device__ explicit Fp8Writer(const Fp8Copy&) {}
  template <typename PackT>
  __device__ void store(std::int64_t, const PackT&) {}
  __device__ void end() const {}
};

template <>
class Fp8Writer<true> {
 public:
  __device__ explicit Fp8Writer(const Fp8Copy& copy)
      : copy_(copy), inverse_scale_(1 / *copy.scale) {}

  // Stores the copy of `pack` at `offset` (in elements).
  template <typename PackT>
  __device__ void store(std::int64_t offset, const PackT& pack) {
    static_assert(PackT::size == 8);
    store_fp8<__nv_fp8_e4m3>(static_cast<unsigned char*>(copy_.values) + offset, pack,
                             inverse_scale_, amax_);
  }
  // Raises amax after the last store(). All lanes of the warp must call it.
  __device__ void end() const {
    __syncwarp();
    raise_amax(copy_.amax, amax_);
  }

 private:
  const Fp8Copy& copy_;  // a kernel's argument
  float inverse_scale_, amax_ = 0;
};

// Calls op(std::bool_constant<copies>); only bf16 kernels write FP8 copies.
template <typename T, typename Op>
void dispatch_copies(bool copies, Op op) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if (copies) return op(std::true_type{});
  }
  op(std::false_type{});
}

}  // namespace tg::cuda
