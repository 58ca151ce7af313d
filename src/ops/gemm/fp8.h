#pragma once
// GEMMs of FP8 operands: e4m3 or e5m2, with per-tensor scales (Micikevicius et al. 2022, FP8
// Formats for Deep Learning). On a GPU they run on FP8 tensor cores, on a CPU in fp32 with the same
// operands.
#include <ATen/ATen.h>

#include <memory>

#include "ops/gemm/fp8_kernel.h"

namespace tg {

inline constexpr double kFp8Max = 448, kE5m2Max = 57344;  // e4m3, e5m2

// Delayed scaling of a tensor: x is quantized to e4m3(x / scale), saturating at ±kFp8Max, and
// `amax` is raised to max|x|, from which a later scale is computed. Each is [] fp32, at a fixed
// address.
struct Fp8Scaling {
  at::Tensor scale{}, amax{};
  // x and its FP8 copy, written together by the operation or the backward pass that computed x, for
  // the GEMM that reads the copy: autograd passes only x.
  struct Cached {
    at::Tensor x, rounded;
  };
  std::shared_ptr<Cached> cached{};  // null: caching is off

  bool defined() const { return scale.defined(); }
};

// A quantized weight matrix W ≈ scale · value, and the scaling of the operands of its GEMMs.
// Undefined: the GEMMs of this weight are not in FP8.
struct Fp8Weight {
  at::Tensor value{};  // [out, in] e4m3
  // [in, out], for input gradients: tensor cores read FP8 operands along K only. May be undefined.
  at::Tensor transposed{};
  at::Tensor scale{};                     // [] fp32
  Fp8Scaling input{}, output_gradient{};  // x, and dy (e5m2 for a head)
  Fp8Scaling scaled_input{};              // head only: the normalized input that the dW GEMM reads

  bool defined() const { return value.defined(); }
};

// Returns the cached FP8 copy of x, or undefined, and clears the cache.
at::Tensor fp8_cached(const at::Tensor& x, const Fp8Scaling& scaling);
// Returns e4m3(x / scale), contiguous: the cached copy of x, or a new one. x has any shape.
at::Tensor to_fp8(const at::Tensor& x, const Fp8Scaling& scaling);
// For operations whose kernels quantize x as they compute it, to the same bytes as to_fp8():
// allocates the FP8 copy and puts it in the cache (undefined if `scaling` is), and makes the
// kernels' argument (null if `rounded` is undefined).
at::Tensor empty_fp8_like(const at::Tensor& x, const Fp8Scaling& scaling);
cuda::Fp8Copy fp8_copy(const at::Tensor& rounded, const Fp8Scaling& scaling);
// Does both for a copy that only the cache holds; null without a cache.
cuda::Fp8Copy cached_fp8_copy(const at::Tensor& x, const Fp8Scaling& scaling);
// Computes scale_a · scale_b · a·bᵀ [..., N] in bf16 from a [..., K] and b [N, K] in FP8. `fast`:
// the tensor cores accumulate with 14 bits (fast accumulation), else in fp32.
at::Tensor fp8_matmul(const at::Tensor& a, const at::Tensor& scale_a, const at::Tensor& b,
                      const at::Tensor& scale_b, bool fast = true);

// Transposes x [..., D], in e4m3 or e5m2 on the GPU, to [D, fp8_interleaved(rows)] with interleaved
// rows.
at::Tensor fp8_transposed(const at::Tensor& x);
// Allocates, uninitialised, the result of fp8_transposed() for a matrix [rows, columns].
at::Tensor empty_fp8_transposed(const at::Tensor& like, std::int64_t rows, std::int64_t columns,
                                at::ScalarType dtype = at::kFloat8_e4m3fn);
// Computes accumulator [M, N] += scale_a · scale_b · a·bᵀ from a [M, K] and b [N, K] in FP8 on the
// GPU. Accumulates in fp32, since K is all tokens of a micro-batch.
void accumulate_fp8_gemm(const at::Tensor& accumulator, const at::Tensor& a,
                         const at::Tensor& scale_a, const at::Tensor& b, const at::Tensor& scale_b);

cuda::Fp8Gemm fp8_gemm(const at::Tensor& scale_a, const at::Tensor& scale_b,
                       const cuda::Fp8Copy& copy = {});

// Allocates fp32 scales, uninitialised, with each element 16-byte aligned, as cuBLAS requires of
// the scales of a GEMM.
at::Tensor empty_fp8_scales(at::IntArrayRef sizes, at::Device device);

// Allocates the FP8 copies of a bank of n matrices of one shape: value [n, out, in], transposed [n,
// in, out] if requested, and scale [n].
Fp8Weight empty_fp8_weights(const at::Tensor& bank, bool transposed = true);
// Quantizes the bank's matrices, each with the scale that maps its largest |element| to kFp8Max.
void round_weights(const at::Tensor& bank, const Fp8Weight& to);

}  // namespace tg
