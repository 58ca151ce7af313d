#include "commands/tensor_table.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "ops/quantize/quantize.h"
#include "weights/tensors/dtype_names.h"
#include "weights/tensors/tensor_check.h"

namespace tg {
namespace {

struct Statistics {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum_of_squares = 0;
  int64_t finite = 0, nonfinite = 0;
};

Statistics statistics_of(const at::Tensor& tensor) {
  // Converts in parts: a whole fp16 tensor in fp64 would take four times its memory.
  constexpr int64_t kPart = 1 << 20;
  Statistics s;
  const at::Tensor flat = tensor.reshape(-1);
  for (int64_t begin = 0; begin < flat.numel(); begin += kPart) {
    const at::Tensor part = flat.slice(0, begin, begin + kPart).to(at::kDouble).contiguous();
    const std::span values(part.const_data_ptr<double>(), static_cast<size_t>(part.numel()));
    for (const double value : values) {
      if (!std::isfinite(value)) {
        ++s.nonfinite;
        continue;
      }
      ++s.finite;
      s.min = std::min(s.min, value);
      s.max = std::max(s.max, value);
      s.sum_of_squares += value * value;
    }
  }
  return s;
}

std::string dtype_name(const at::Tensor& tensor) {
  return std::string(find_dtype(&DtypeNames::dtype, tensor.scalar_type())->safetensors);
}

struct Total {
  int64_t tensors = 0, elements = 0;
  size_t bytes = 0;

  void add(const at::Tensor& tensor) {
    ++tensors;
    elements += tensor.numel();
    bytes += tensor.nbytes();
  }
};

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

std::string table_text(const std::vector<std::vector<std::string>>& rows, size_t left) {
  std::vector<size_t> widths(rows.at(0).size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i < left ? fmt::format("{:<{}}  ", row[i], widths[i])
                       : fmt::format("{:>{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string tensors_text(const NamedTensors& tensors) {
  std::vector<std::vector<std::string>> rows = {
      {"name", "dtype", "shape", "elements", "bytes", "min", "max", "rms", "nonfinite"}};
  bool all_finite = true;
  for (const auto& [name, tensor] : tensors) {
    const Statistics s = statistics_of(tensor);
    const auto number = [&](double value) {
      return s.finite > 0 ? fmt::format("{:.6g}", value) : "-";
    };
    rows.push_back({escaped(name), dtype_name(tensor), shape_text(tensor.sizes()),
                    fmt::to_string(tensor.numel()), fmt::to_string(tensor.nbytes()), number(s.min),
                    number(s.max),
                    number(std::sqrt(s.sum_of_squares / static_cast<double>(s.finite))),
                    fmt::to_string(s.nonfinite)});
    all_finite &= s.nonfinite == 0;
  }
  if (all_finite)
    for (auto& row : rows) row.pop_back();
  return table_text(rows, 3);
}

std::string totals_text(const NamedTensors& tensors) {
  Total all;
  std::map<std::string, Total> by_dtype;
  for (const auto& [name, tensor] : tensors) {
    by_dtype[dtype_name(tensor)].add(tensor);
    all.add(tensor);
  }
  std::vector<std::vector<std::string>> rows = {{"dtype", "tensors", "elements", "bytes"}};
  const auto add_row = [&](const std::string& label, const Total& total) {
    rows.push_back({label, fmt::to_string(total.tensors), fmt::to_string(total.elements),
                    fmt::to_string(total.bytes)});
  };
  for (const auto& [dtype, total] : by_dtype) add_row(dtype, total);
  add_row("all", all);
  return table_text(rows, 1);
}

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
