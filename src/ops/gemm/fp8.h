#pragma once
// GEMMs of FP8 operands: e4m3 or e5m2, one scale a tensor (Micikevicius et al. 2022, FP8 Formats
// for Deep Learning). On Hopper by its tensor cores, elsewhere in fp32 of the same operands.
#include <ATen/ATen.h>

#include <memory>

#include "ops/gemm/fp8_kernel.h"

namespace tg {

inline constexpr double kFp8Max = 448, kE5m2Max = 57344;  // of e4m3, of e5m2

// Delayed scaling of a tensor: x is rounded to e4m3(x / scale), saturating at ±kFp8Max, and `amax`
// is raised to the largest |x|, from which a later scale follows. [] fp32 each, at fixed addresses.
struct Fp8Scaling {
  at::Tensor scale{}, amax{};
  // A gradient x and its rounding, if the backward pass that computed x wrote both for the GEMM
  // that reads it: autograd passes on x alone.
  struct Cached {
    at::Tensor x, rounded;
  };
  std::shared_ptr<Cached> cached{};  // null: never

  bool defined() const { return scale.defined(); }
};

// A weight matrix W ≈ scale · value, and how what it is multiplied by is rounded. Undefined: the
// GEMMs of this weight are not in FP8.
struct Fp8Weight {
  at::Tensor value{};  // [out, in] e4m3
  // [in, out], for input gradients: tensor cores read FP8 operands along K only. May be undefined.
  at::Tensor transposed{};
  at::Tensor scale{};                     // [] fp32
  Fp8Scaling input{}, output_gradient{};  // of x·Wᵀ; the gradient of a head's is in e5m2
  Fp8Scaling scaled_input{};              // of a head: its input as the weight's gradient reads it

  bool defined() const { return value.defined(); }
};

// What is cached of x, else undefined; then nothing is cached any more.
at::Tensor fp8_cached(const at::Tensor& x, const Fp8Scaling& scaling);
// x of any shape, bf16 for the kernels → e4m3(x / scale), contiguous: what is cached of x, or a
// pass over x.
at::Tensor to_fp8(const at::Tensor& x, const Fp8Scaling& scaling);
// For operations whose kernels round x as they compute it, to the bytes that to_fp8() would
// give: what they write, cached; and how they take it. Undefined and null where `scaling` is.
at::Tensor empty_fp8_like(const at::Tensor& x, const Fp8Scaling& scaling);
cuda::Fp8Copy fp8_copy(const at::Tensor& rounded, const Fp8Scaling& scaling);
// a [..., K] and b [N, K] in FP8 → scale_a · scale_b · a·bᵀ [..., N] in bf16. `fast`: the tensor
// cores accumulate with 14 bits, else in fp32.
at::Tensor fp8_matmul(const at::Tensor& a, const at::Tensor& scale_a, const at::Tensor& b,
                      const at::Tensor& scale_b, bool fast = true);

// x [..., D] in FP8, on the GPU → its transpose [D, fp8_interleaved(rows)], rows interleaved.
at::Tensor fp8_transposed(const at::Tensor& x);
// What fp8_transposed() gives of a matrix [rows, columns], uninitialised.
at::Tensor empty_fp8_transposed(const at::Tensor& like, std::int64_t rows, std::int64_t columns,
                                at::ScalarType dtype = at::kFloat8_e4m3fn);
// accumulator [M, N] += scale_a · scale_b · a·bᵀ of a [M, K] and b [N, K] in FP8, on the GPU;
// accumulated in fp32, since K is all of a micro-batch's tokens.
void accumulate_fp8_gemm(const at::Tensor& accumulator, const at::Tensor& a,
                         const at::Tensor& scale_a, const at::Tensor& b, const at::Tensor& scale_b);

cuda::Fp8Gemm fp8_gemm(const at::Tensor& scale_a, const at::Tensor& scale_b,
                       const cuda::Fp8Copy& copy = {});

// Returns uninitialised scales: fp32 of these sizes, each element at an address that is a multiple
// of 16 bytes, which cuBLAS requires of a GEMM's scale.
at::Tensor empty_fp8_scales(at::IntArrayRef sizes, at::Device device);

// Matrices of a bank, all of one shape: value [n, out, in], transposed [n, in, out] if wanted, and
// scale [n].
Fp8Weight empty_fp8_weights(const at::Tensor& bank, bool transposed = true);
// Rounds the bank's matrices, each with the scale that maps its largest |element| to kFp8Max.
void round_weights(const at::Tensor& bank, const Fp8Weight& to);

}  // namespace tg
