#pragma once
// GEMMs. On a GPU, half-precision and FP8 GEMMs run through cublasLt with the algorithm chosen by
// algorithm_choice.h, if any; else through LibTorch.
#include <ATen/ATen.h>

#include <compare>
#include <cstdint>

namespace tg {

// out [m, n] = a·b, or += if `accumulates`; row-major, contiguous.
struct GemmProblem {
  std::int64_t m, n, k;
  at::ScalarType a_dtype, b_dtype, out_dtype;
  bool a_transposed = false;  // stored as [k, m], else as [m, k]
  bool b_transposed = false;  // stored as [n, k], else as [k, n]
  bool accumulates = false;
  bool fast = false;  // FP8: the tensor cores accumulate with 14 bits

  auto operator<=>(const GemmProblem&) const = default;
};

// Only the data pointers are read, so a and b may be views of the stored matrices. Scales: [] fp32
// if a and b are FP8, else undefined.
struct GemmTensors {
  at::Tensor a, b, out, scale_a{}, scale_b{};
};

// Computes a [..., K] · b [K, N] → [..., N], accumulated in fp32 and rounded once. b may be a
// transposed view. Differentiable: if grad mode is enabled, LibTorch computes it.
at::Tensor gemm(const at::Tensor& a, const at::Tensor& b);

// Computes out [M, N] = a [M, K] · b [K, N], or += if `accumulates`. Returns false, having done
// nothing, if the caller should use LibTorch instead. Operands are in half precision or FP8; each
// may be a transposed view. `fast`: FP8 tensor cores accumulate with 14 bits.
bool gemm_by_choice(const GemmTensors& tensors, bool accumulates = false, bool fast = false);

}  // namespace tg
