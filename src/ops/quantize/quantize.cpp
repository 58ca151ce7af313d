#include "ops/quantize/quantize.h"

#include <ATen/core/grad_mode.h>

#include <cassert>
#include <cmath>
#include <vector>

#include "ops/quantize/rounding.h"

namespace tg {
namespace {

// Largest range of exact integers in fp32; torch.quantile has the same limit.
constexpr int64_t kMaxColumns = int64_t{1} << 24;

// Percentiles of each row, bitwise as torch.quantile(x, p, dim=1) in fp32. They are high
// percentiles, so that a top-k of the largest elements replaces torch.quantile's full sort.
class RowPercentiles {
 public:
  // x [rows, columns], fp32. `lowest`: the lowest percentile that will be requested.
  RowPercentiles(const at::Tensor& x, double lowest) : last_(x.size(1) - 1) {
    assert(x.size(1) > 0 && x.size(1) <= kMaxColumns);
    const auto below = static_cast<int64_t>(rank(lowest));
    largest_ = std::get<0>(at::topk(x, last_ - below + 1, /*dim=*/1));
  }

  at::Tensor at_percentile(double p) const {  // [rows]
    const float place = rank(p), below = std::floor(place);
    const at::Tensor low = from_smallest(below), high = from_smallest(std::ceil(place));
    return at::lerp(low, high, at::full_like(low, place - below));
  }

 private:
  float rank(double p) const { return static_cast<float>(p) * static_cast<float>(last_); }
  // Contiguous, since lerp's vectorised and strided loops round differently.
  at::Tensor from_smallest(float place) const {
    return largest_.select(1, last_ - static_cast<int64_t>(place)).contiguous();
  }

  int64_t last_;
  at::Tensor largest_;  // [rows, k], descending
};

QuantizedWeight quantize_int8_whole(const at::Tensor& w) {
  const at::Tensor clip =
      RowPercentiles(w.abs().reshape({1, -1}), 0.9999984).at_percentile(0.9999984).squeeze(0);
  const at::Tensor scale = at::where(clip > 0, divide(clip, 127), at::ones_like(clip));
  return {round_to_levels(w.clamp(-clip, clip), scale, -127, 127).to(at::kChar), scale};
}

}  // namespace

QuantizedWeight quantize_int6(const at::Tensor& matrix) {
  const at::NoGradGuard no_grad;
  assert(matrix.dim() == 2);
  const at::Tensor w =
      matrix.to(at::kFloat).contiguous();  // fixes the summation order of the errors
  const RowPercentiles percentiles(w.abs(), 0.999);
  std::vector<at::Tensor> scales, errors;
  for (const double p : {0.999, 0.9995, 0.9999, 0.99999, 1.0}) {
    scales.push_back(divide(percentiles.at_percentile(p), 31).clamp_min(1.0 / 31.0).to(at::kHalf));
    const at::Tensor scale = scales.back().to(at::kFloat).unsqueeze(1);
    errors.push_back((w - round_to_levels(w, scale, -31, 31) * scale).pow(2).mean());
  }
  const at::Tensor best = at::stack(errors).argmin().unsqueeze(0);  // ties: the first
  const at::Tensor scale = at::stack(scales).index_select(0, best).squeeze(0);
  return {round_to_levels(w, scale.to(at::kFloat).unsqueeze(1), -31, 31).to(at::kChar), scale};
}

QuantizedWeight quantize_int8(const at::Tensor& weight) {
  const at::NoGradGuard no_grad;
  const at::Tensor w = weight.to(at::kFloat);
  if (w.dim() != 2) return quantize_int8_whole(w);
  const at::Tensor clip = RowPercentiles(w.abs(), 0.9999984).at_percentile(0.9999984).unsqueeze(1);
  const at::Tensor scale = divide(clip, 127).clamp_min(1.0 / 127.0);
  const at::Tensor clipped = w.minimum(clip).maximum(-clip);
  return {round_to_levels(clipped, scale, -127, 127).to(at::kChar), scale.squeeze(1).to(at::kHalf)};
}

QuantizedWeight quantize_gate_rows(const at::Tensor& matrix) {
  const at::NoGradGuard no_grad;
  assert(matrix.dim() == 2);
  return quantize_rows(matrix.to(at::kFloat), 127, -127, 127);
}

at::Tensor dequantize(const QuantizedWeight& weight) {
  const at::NoGradGuard no_grad;
  at::Tensor scale = weight.scale.to(at::kFloat);
  if (scale.dim() == 1) {
    std::vector<int64_t> by_row(static_cast<size_t>(weight.q.dim()), 1);
    by_row[0] = scale.size(0);
    scale = scale.view(by_row);
  }
  return weight.q.to(at::kFloat) * scale;
}

}  // namespace tg
