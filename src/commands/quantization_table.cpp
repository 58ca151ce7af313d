#include "commands/quantization_table.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "commands/tensor_table.h"
#include "ops/quantize/quantize.h"
#include "weights/tensor_check.h"

namespace tg {
namespace {

constexpr int64_t kMaxColumns = int64_t{1} << 24;  // quantize_int6's

double number(const at::Tensor& scalar) {
  return scalar.to(at::kDouble).const_data_ptr<double>()[0];
}

// 40 characters for 100%.
std::string bar(double percent) {
  return std::string(static_cast<size_t>(std::lround(std::clamp(percent, 0.0, 100.0) / 2.5)), '#');
}

std::vector<std::string> row_of(const std::string& name, const at::Tensor& matrix) {
  const at::Tensor w = matrix.to(at::kFloat);
  const QuantizedWeight six = quantize_int6(w);
  const double error =
      100 * std::sqrt(number((w - dequantize(six)).to(at::kDouble).square().mean()) /
                      number(w.to(at::kDouble).square().mean()));
  const auto limit = 31.5 * six.scale.to(at::kFloat).unsqueeze(1);  // rounds beyond the last level
  const double clipped = 100 * number((w.abs() > limit).to(at::kDouble).mean());
  const bool known = std::isfinite(error);
  return {name, shape_text(matrix.sizes()), known ? bar(error) : "",
          known ? fmt::format("{:.2f}", error) : "-", known ? fmt::format("{:.3f}", clipped) : "-"};
}

}  // namespace

std::string quantization_text(const NamedTensors& tensors) {
  std::vector<std::vector<std::string>> rows = {
      {"matrix", "shape", "int6 error", "%", "clipped %"}};
  for (const auto& [name, tensor] : tensors) {
    const bool matrices = tensor.is_floating_point() && tensor.numel() > 0 &&
                          (tensor.dim() == 2 || tensor.dim() == 3) &&
                          tensor.size(-1) <= kMaxColumns;
    if (!matrices) continue;
    if (tensor.dim() == 2) rows.push_back(row_of(escaped(name), tensor));
    for (int64_t i = 0; tensor.dim() == 3 && i < tensor.size(0); ++i)
      rows.push_back(row_of(fmt::format("{}[{}]", escaped(name), i), tensor[i]));
  }
  return rows.size() > 1 ? table_text(rows, 3) : "no matrices\n";
}

}  // namespace tg
