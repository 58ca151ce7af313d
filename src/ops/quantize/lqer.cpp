#include "ops/quantize/lqer.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "ops/quantize/rounding.h"

namespace tg {
namespace {

// Returns the right singular vectors [columns, r] of a tall fp64 matrix for its r largest singular
// values, descending: the last eigenvectors of xᵀ·x. In fp64 this is both more accurate for the
// large singular values than an SVD in fp32, and faster.
at::Tensor right_singular_vectors(const at::Tensor& x, std::int64_t r) {
  const at::Tensor vectors = std::get<1>(at::linalg_eigh(at::matmul(x.t(), x)));  // ascending
  return vectors.slice(1, x.size(1) - r).flip({1});
}

// Returns A = U_r·S_r and B = V_rᵀ of E = U·S·Vᵀ.
std::pair<at::Tensor, at::Tensor> truncated_svd(const at::Tensor& error, std::int64_t rank) {
  const at::Tensor e = error.to(at::kDouble);
  const bool wide = e.size(0) < e.size(1);
  const at::Tensor tall = wide ? e.t() : e;
  const at::Tensor vectors = right_singular_vectors(tall, std::min(rank, tall.size(1)));
  const at::Tensor scaled = tall.matmul(vectors);  // left singular vectors times singular values
  if (!wide) return {scaled, vectors.t()};
  const at::Tensor values = scaled.square().sum(0).sqrt();
  return {vectors * values, (scaled / values.clamp_min(1e-300)).t()};
}

}  // namespace

LowRank low_rank_of(const at::Tensor& error, const LqerOptions& options) {
  const at::NoGradGuard no_grad;
  assert(error.dim() == 2 && error.numel() > 0 && options.rank > 0);
  const auto [a, b] = truncated_svd(error, options.rank);
  const at::Tensor largest = b.gather(1, b.abs().argmax(1, /*keepdim=*/true));  // [r, 1]
  const at::Tensor sign = at::where(largest < 0, -1.0, at::ones_like(largest));
  return quantize_factors((a * sign.t()).to(at::kFloat), (b * sign).to(at::kFloat), options);
}

LowRank quantize_factors(const at::Tensor& a, const at::Tensor& b, const LqerOptions& options) {
  const at::NoGradGuard no_grad;
  if (options.asymmetric && b.numel() % options.group == 0) {
    const QuantizedWeight whole = quantize_rows(a.reshape({1, -1}), 1.5, -2, 1);
    const QuantizedWeight groups = quantize_rows(b.reshape({-1, options.group}), 7.5, -8, 7);
    return {true,
            {whole.q.view(a.sizes()), whole.scale.squeeze(0)},
            {groups.q.view(b.sizes()), groups.scale}};
  }
  const double levels = symmetric_levels(options.bits);
  return {false, quantize_rows(a, levels, -levels, levels),
          quantize_rows(b, levels, -levels, levels)};
}

at::Tensor dequantize(const LowRank& correction) {
  const at::NoGradGuard no_grad;
  const at::NoTF32Guard in_fp32;
  const QuantizedWeight& b = correction.b;
  const at::Tensor b_fp32 =
      correction.asymmetric
          ? dequantize({b.q.reshape({b.scale.size(0), -1}), b.scale}).view(b.q.sizes())
          : dequantize(b);
  return at::matmul(dequantize(correction.a), b_fp32);
}

}  // namespace tg
