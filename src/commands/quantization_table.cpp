#include "commands/quantization_table.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "commands/tensor_table.h"
#include "ops/quantize/quantize.h"
#include "weights/tensors/tensor_check.h"

namespace tg {
namespace {

constexpr int64_t kMaxColumns = int64_t{1} << 24;  // quantize_int6's limit

double number(const at::Tensor& scalar) {
  return scalar.to(at::kDouble).const_data_ptr<double>()[0];
}

// Returns a bar of 40 characters for 100%.
std::string bar(double percent) {
  return std::string(static_cast<size_t>(std::lround(std::clamp(percent, 0.0, 100.0) / 2.5)), '#');
}

// Returns the root mean square of w - stored, in % of w's own. w is fp32.
double error_percent(const at::Tensor& w, const at::Tensor& stored) {
  return 100 * std::sqrt(number((w - stored).to(at::kDouble).square().mean()) /
                         number(w.to(at::kDouble).square().mean()));
}

std::vector<std::string> row_of(const std::string& name, const at::Tensor& matrix) {
  const at::Tensor w = matrix.to(at::kFloat);
  const QuantizedWeight six = quantize_int6(w);
  const double error = error_percent(w, dequantize(six));
  const auto limit =
      31.5 *
      six.scale.to(at::kFloat).unsqueeze(1);  // beyond it weights are clipped to the last level
  const double clipped = 100 * number((w.abs() > limit).to(at::kDouble).mean());
  const bool known = std::isfinite(error);
  return {name, shape_text(matrix.sizes()), known ? bar(error) : "",
          known ? fmt::format("{:.2f}", error) : "-", known ? fmt::format("{:.3f}", clipped) : "-"};
}

// `stored` may be undefined.
std::string artifact_cell(const at::Tensor& matrix, const at::Tensor& stored) {
  if (!stored.defined()) return "-";
  const double error = error_percent(matrix.to(at::kFloat), stored.to(at::kFloat));
  return std::isfinite(error) ? fmt::format("{:.2f}", error) : "-";
}

// Returns the tensor of this name and shape; undefined if there is none.
at::Tensor find(const NamedTensors& tensors, const std::string& name, at::IntArrayRef shape) {
  const auto found = std::ranges::find(tensors, name, &NamedTensors::value_type::first);
  return found != tensors.end() && found->second.sizes() == shape ? found->second : at::Tensor();
}

}  // namespace

std::string quantization_text(const NamedTensors& tensors, const NamedTensors* artifact) {
  std::vector<std::vector<std::string>> rows = {
      {"matrix", "shape", "int6 error", "%", "clipped %"}};
  if (artifact != nullptr) rows[0].emplace_back("artifact %");
  const auto add = [&](const std::string& name, const at::Tensor& matrix,
                       const at::Tensor& stored) {
    rows.push_back(row_of(name, matrix));
    if (artifact != nullptr) rows.back().push_back(artifact_cell(matrix, stored));
  };
  for (const auto& [name, tensor] : tensors) {
    const bool matrices = tensor.is_floating_point() && tensor.numel() > 0 &&
                          (tensor.dim() == 2 || tensor.dim() == 3) &&
                          tensor.size(-1) <= kMaxColumns;
    if (!matrices) continue;
    const at::Tensor stored =
        artifact != nullptr ? find(*artifact, name, tensor.sizes()) : at::Tensor();
    if (tensor.dim() == 2) add(escaped(name), tensor, stored);
    for (int64_t i = 0; tensor.dim() == 3 && i < tensor.size(0); ++i)
      add(fmt::format("{}[{}]", escaped(name), i), tensor[i],
          stored.defined() ? stored[i] : stored);
  }
  return rows.size() > 1 ? table_text(rows, 3) : "no matrices\n";
}

}  // namespace tg
