#include "ops/gemm/fp8.h"

#include <limits>
#include <utility>

#include "ops/gemm/fp8_kernel.h"
#include "ops/gemm/gemm.h"
#include "ops/kernels.h"

namespace tg {

cuda::Fp8Copy fp8_copy(const at::Tensor& rounded, const Fp8Scaling& scaling) {
  if (!rounded.defined()) return {};
  return {mutable_data(rounded), const_fp32_data(scaling.scale), mutable_fp32_data(scaling.amax)};
}

cuda::Fp8Gemm fp8_gemm(const at::Tensor& scale_a, const at::Tensor& scale_b,
                       const cuda::Fp8Copy& copy) {
  return {const_fp32_data(scale_a), const_fp32_data(scale_b), copy};
}

namespace {

at::Tensor empty_fp8(const at::Tensor& x) {
  return at::empty(x.sizes(), x.options().dtype(at::kFloat8_e4m3fn).requires_grad(false));
}

}  // namespace

at::Tensor empty_fp8_like(const at::Tensor& x, const Fp8Scaling& scaling) {
  if (!scaling.defined()) return {};
  const auto rounded = empty_fp8(x);
  if (scaling.cached) *scaling.cached = {x.detach(), rounded};
  return rounded;
}

cuda::Fp8Copy cached_fp8_copy(const at::Tensor& x, const Fp8Scaling& scaling) {
  if (!scaling.cached) return {};
  return fp8_copy(empty_fp8_like(x, scaling), scaling);
}

at::Tensor fp8_cached(const at::Tensor& x, const Fp8Scaling& scaling) {
  if (!scaling.cached) return {};
  const auto cached = std::exchange(*scaling.cached, {});
  // The cached tensor is still alive, so no other tensor can have its address.
  const bool matches = cached.x.defined() && cached.x.const_data_ptr() == x.const_data_ptr() &&
                       cached.x.numel() == x.numel();
  return matches ? cached.rounded.view(x.sizes()) : at::Tensor();
}

at::Tensor to_fp8(const at::Tensor& x_in, const Fp8Scaling& scaling) {
  const at::NoGradGuard no_grad;
  const auto x = aligned_contiguous(x_in);
  if (const auto cached = fp8_cached(x, scaling); cached.defined()) return cached;
  if (use_kernels(x) && x.scalar_type() != at::kFloat && x.numel() % cuda::kFp8Chunk == 0) {
    const auto rounded = empty_fp8(x);
    cuda::fp8_round(const_data(x), x.numel(), fp8_copy(rounded, scaling), dtype_of(x),
                    current_stream(x));
    return rounded;
  }
  const auto values = x.to(at::kFloat);
  at::Tensor(scaling.amax).copy_(at::maximum(scaling.amax, values.abs().max()));
  return (values / scaling.scale).clamp(-kFp8Max, kFp8Max).to(at::kFloat8_e4m3fn);
}

namespace {

// Computes scale_a · scale_b · a·bᵀ [M, N] from a [M, K] and b [N, K].
at::Tensor scaled_matmul(const at::Tensor& a, const at::Tensor& scale_a, const at::Tensor& b,
                         const at::Tensor& scale_b, at::ScalarType dtype, bool fast) {
  const at::NoGradGuard no_grad;
  if (a.is_cuda()) {
    auto out = at::empty({a.size(0), b.size(0)}, a.options().dtype(dtype));
    if (!gemm_by_choice({a, b.t(), out, scale_a, scale_b}, /*accumulates=*/false, fast))
      at::_scaled_mm_out(out, a, b.t(), scale_a, scale_b, {}, {}, dtype, fast);
    return out;
  }
  return (at::matmul(a.to(at::kFloat), b.to(at::kFloat).t()) * (scale_a * scale_b)).to(dtype);
}

}  // namespace

at::Tensor fp8_matmul(const at::Tensor& a, const at::Tensor& scale_a, const at::Tensor& b,
                      const at::Tensor& scale_b, bool fast) {
  auto sizes = a.sizes().vec();
  sizes.back() = b.size(0);
  const auto rows = a.reshape({-1, a.size(-1)});
  return at::_unsafe_view(scaled_matmul(rows, scale_a, b, scale_b, at::kBFloat16, fast), sizes);
}

at::Tensor empty_fp8_transposed(const at::Tensor& like, std::int64_t rows, std::int64_t columns,
                                at::ScalarType dtype) {
  return at::empty({columns, cuda::fp8_interleaved(rows)},
                   like.options().dtype(dtype).requires_grad(false));
}

at::Tensor fp8_transposed(const at::Tensor& x) {
  const auto columns = x.size(-1), rows = x.numel() / columns;
  const auto transposed = empty_fp8_transposed(x, rows, columns, x.scalar_type());
  cuda::fp8_transpose(const_data(x), rows, static_cast<int>(columns), mutable_data(transposed),
                      current_stream(x));
  return transposed;
}

void accumulate_fp8_gemm(const at::Tensor& accumulator, const at::Tensor& a,
                         const at::Tensor& scale_a, const at::Tensor& b,
                         const at::Tensor& scale_b) {
  const GemmTensors tensors{a, b.t(), accumulator, scale_a, scale_b};
  if (gemm_by_choice(tensors, /*accumulates=*/true)) return;
  at::Tensor(accumulator).add_(scaled_matmul(a, scale_a, b, scale_b, at::kFloat, /*fast=*/false));
}

at::Tensor empty_fp8_scales(at::IntArrayRef sizes, at::Device device) {
  constexpr std::int64_t kStride = 16 / sizeof(float);
  auto strided = sizes.vec();
  strided.push_back(kStride);
  return at::empty(strided, at::TensorOptions(device).dtype(at::kFloat)).select(-1, 0);
}

Fp8Weight empty_fp8_weights(const at::Tensor& bank, bool transposed) {
  const auto n = bank.size(0), out = bank.size(1), in = bank.size(2);
  const auto fp8 = bank.options().dtype(at::kFloat8_e4m3fn);
  return {.value = at::empty({n, out, in}, fp8),
          .transposed = transposed ? at::empty({n, in, out}, fp8) : at::Tensor(),
          .scale = empty_fp8_scales({n}, bank.device())};
}

void round_weights(const at::Tensor& bank, const Fp8Weight& to) {
  const at::NoGradGuard no_grad;
  const std::int64_t matrix[] = {1, 2};
  const auto amax = at::linalg_vector_norm(bank, std::numeric_limits<double>::infinity(), matrix,
                                           /*keepdim=*/false, at::kFloat);
  // The minimum avoids a zero scale for a matrix of zeros.
  at::Tensor(to.scale).copy_((amax / kFp8Max).clamp_min_(std::numeric_limits<float>::min()));
  if (use_kernels(bank) && bank.scalar_type() != at::kFloat && is_aligned_contiguous(bank) &&
      bank.size(1) % cuda::kFp8Chunk == 0 && bank.size(2) % cuda::kFp8Chunk == 0) {
    cuda::fp8_round_bank({.bank = const_data(bank),
                          .matrices = bank.size(0),
                          .rows = bank.size(1),
                          .columns = bank.size(2),
                          .scales = const_fp32_data(to.scale),
                          .scale_stride = to.scale.stride(0),
                          .values = mutable_data(to.value),
                          .transposed = mutable_data(to.transposed)},
                         dtype_of(bank), current_stream(bank));
    return;
  }
  at::Tensor(to.value).copy_(bank / to.scale.view({-1, 1, 1}));
  if (!to.transposed.defined()) return;
  // As bytes, since the copy converts nothing.
  at::Tensor(to.transposed).view(at::kByte).copy_(to.value.view(at::kByte).mT());
}

}  // namespace tg
