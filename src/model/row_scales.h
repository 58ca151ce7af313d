#pragma once
// Learned scales of matrix outputs, folded into the rows of the weight: W' = s ⊙ W.
#include <ATen/ATen.h>

#include <vector>

#include "model/padded_copy.h"
#include "model/plan.h"

namespace tg {

// Scales of the matrices of a bank: s = offset + factor·parameter, each [rows] or [1]. Empty: no
// scales. A source without a gradient is a constant.
struct RowScales {
  std::vector<WeightSource> parameters{};
  double offset = 0, factor = 1;

  bool empty() const { return parameters.empty(); }
  at::Tensor columns() const;  // s [matrices, rows or 1, 1]
  // Turns `gradient` from dW' into dW = s ⊙ dW', in place, and adds factor·ds, ds = Σ dW' ⊙ W over
  // a row, to the gradients of the parameters.
  void unscale(const at::Tensor& gradient, const at::Tensor& value) const;
};

// The parameter `scale` of all blocks that have it.
RowScales output_scales(const Plan& plan, const ParameterTable& table,
                        ParameterId BlockPlan::*scale);
// Weight of a layer call's own values in a value residual, [], except in the first layer call.
// WeightCopies folds it into the projection; terms added to the projection's output need it
// applied.
at::Tensor own_value_weight(const ValueMix& mix, const ParameterTable& table);
// Scales of the blocks' own values: value_scale, or the own weight of a value residual. The first
// layer call of a residual uses its own values only: its s is 1.
RowScales value_scales(const Plan& plan, const ParameterTable& table);

}  // namespace tg
