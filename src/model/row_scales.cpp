#include "model/row_scales.h"

#include <algorithm>
#include <cassert>

namespace tg {

at::Tensor RowScales::columns() const {
  std::vector<at::Tensor> values;
  for (const auto& parameter : parameters) values.push_back(parameter.value);
  return (offset + factor * at::stack(values)).unsqueeze(-1);
}

void RowScales::unscale(const at::Tensor& gradient, const at::Tensor& value) const {
  const auto row_dots = (gradient * value).sum(-1);  // [matrices, rows]
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto of_matrix = row_dots[static_cast<std::int64_t>(i)];
    const auto& target = parameters[i].gradient;
    if (target.defined()) target.add_(of_matrix.sum_to_size(target.sizes()), factor);
  }
  gradient.mul_(columns());
}

RowScales output_scales(const Plan& plan, const ParameterTable& table,
                        ParameterId BlockPlan::*scale) {
  RowScales scales;
  for (const auto& block : plan.blocks) {
    if (block.*scale) scales.parameters.push_back(source_of(table[block.*scale]));
  }
  return scales;
}

at::Tensor own_value_weight(const ValueMix& mix, const ParameterTable& table) {
  const auto weights = table[mix.weights];
  return mix.blend ? 1 - weights : weights[1];
}

RowScales value_scales(const Plan& plan, const ParameterTable& table) {
  auto scales = output_scales(plan, table, &BlockPlan::value_scale);
  if (!scales.empty()) return scales;
  const auto& calls = plan.all_calls();
  const auto first = calls.front().block;
  for (std::int64_t i = 0; i < std::ssize(plan.blocks); ++i) {
    const auto& [weights, blend] = plan.blocks[static_cast<std::size_t>(i)].value_mix;
    if (!weights) return {};
    assert(i != first || std::ranges::count(calls, i, &LayerCall::block) == 1);
    if (blend) scales.offset = 1, scales.factor = -1;
    const auto& parameter = table[weights];
    if (i == first) {
      // A blend's parameter keeps a gradient of 0, with which the optimizer updates it.
      if (blend) source_of(parameter);
      scales.parameters.push_back({at::full({1}, blend ? 0 : 1, parameter.options()), {}});
      continue;
    }
    const auto own = [&](const at::Tensor& x) {
      if (!x.defined()) return x;
      return blend ? x.view({1}) : x.narrow(0, 1, 1);
    };
    const auto [value, gradient] = source_of(parameter);
    scales.parameters.push_back({own(value), own(gradient)});
  }
  return scales;
}

}  // namespace tg
