#include "ops/attention/projection/rope.h"

#include <array>
#include <cmath>

namespace tg {

namespace {

at::Tensor make_frequencies(std::int64_t seq_len, const RopeOptions& options,
                            at::ScalarType dtype) {
  if (options.frequencies.defined()) return options.frequencies;
  const auto angle_dtype = dtype == at::kDouble ? at::kDouble : at::kFloat;
  const auto context = options.context > 0 ? options.context : seq_len;
  const auto exponent = at::arange(0, options.dims, 2, angle_dtype) / options.dims;
  const auto frequencies = 1.0 / at::pow(rope_base(context, options), exponent);
  const bool rounds =
      options.bf16_frequencies && dtype == at::kBFloat16 && context <= options.trained;
  return rounds ? frequencies.to(at::kBFloat16).to(at::kFloat) : frequencies;
}

}  // namespace

double rope_base(std::int64_t context, const RopeOptions& options) {
  const auto trained = options.trained;
  if (trained == 0 || context <= trained || options.dims <= 2) return options.base;
  const double dims = static_cast<double>(options.dims);
  const double stretch = static_cast<double>(context) / static_cast<double>(trained);
  return options.base * std::pow(stretch, dims / (dims - 2));
}

RopeTable make_rope_table(std::int64_t seq_len, const RopeOptions& options, at::ScalarType dtype,
                          at::Device device) {
  // Angles are computed on the CPU, so that their bits do not depend on the device. fp64 is only
  // for gradient checks.
  const auto angle_dtype = dtype == at::kDouble ? at::kDouble : at::kFloat;
  const auto frequency = make_frequencies(seq_len, options, dtype).to(angle_dtype);
  const auto angle = at::outer(at::arange(seq_len, angle_dtype), frequency);
  return {angle.cos().to(device, dtype), angle.sin().to(device, dtype), options.interleaved};
}

RopeTable make_paired_rope_table(std::int64_t seq_len, const RopeOptions& options,
                                 at::ScalarType dtype, at::Device device) {
  const auto table = make_rope_table(2 * seq_len, options, dtype, device);
  return {table.cos.unflatten(0, {seq_len, 2}), table.sin.unflatten(0, {seq_len, 2}),
          table.interleaved};
}

at::Tensor rope(const at::Tensor& x_bthd, const RopeTable& table) {
  if (x_bthd.size(2) == 0) return x_bthd;  // also with a table per head
  const std::int64_t half = table.half_dims();
  const std::int64_t rest = x_bthd.size(-1) - 2 * half;
  // [T, heads, half], or [T, 1, half] if it is the same for every head.
  const auto by_head = [&](const at::Tensor& angles) {
    if (!table.per_head()) return angles.unsqueeze(1);
    return angles.repeat({1, x_bthd.size(2) / table.tables(), 1});
  };
  const auto cos = by_head(table.cos), sin = by_head(table.sin);
  const auto rotated = [&](const at::Tensor& x1, const at::Tensor& x2) {
    return std::array{at::addcmul(x1 * cos, x2, sin), at::addcmul(x2 * cos, x1, sin, /*value=*/-1)};
  };
  if (table.interleaved) {
    const auto pairs = x_bthd.narrow(-1, 0, 2 * half).unflatten(-1, {half, 2});
    const auto y = at::stack(rotated(pairs.select(-1, 0), pairs.select(-1, 1)), -1).flatten(-2);
    return rest == 0 ? y : at::cat({y, x_bthd.narrow(-1, 2 * half, rest)}, -1);
  }
  const auto [y1, y2] = rotated(x_bthd.narrow(-1, 0, half), x_bthd.narrow(-1, half, half));
  if (rest == 0) return at::cat({y1, y2}, -1);
  return at::cat({y1, y2, x_bthd.narrow(-1, 2 * half, rest)}, -1);
}

}  // namespace tg
