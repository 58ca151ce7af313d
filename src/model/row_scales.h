#pragma once
// Learned scales of what a matrix multiplies to, folded into its rows: W' = s ⊙ W.
#include <ATen/ATen.h>

#include <vector>

#include "model/padded_copy.h"
#include "model/plan.h"

namespace tg {

// Row scales of a bank's matrices: s = offset + factor·parameter, of [rows] or [1] each; none where
// empty. A source without a gradient is a constant.
struct RowScales {
  std::vector<WeightSource> parameters{};
  double offset = 0, factor = 1;

  bool empty() const { return parameters.empty(); }
  at::Tensor columns() const;  // s [matrices, rows or 1, 1]
  // Turns `gradient` of W' into W's, s ⊙ dW', and adds ds = Σ dW' ⊙ W over a row to the parameters'
  // gradients.
  void unscale(const at::Tensor& gradient, const at::Tensor& value) const;
};

// `scale` of all blocks.
RowScales output_scales(const Plan& plan, const ParameterTable& table,
                        ParameterId BlockPlan::*scale);
// Returns the weight of a call's own values in a value residual, [], except for the first call:
// WeightCopies folds it into the projection; terms added to the projection take it themselves.
at::Tensor own_value_weight(const ValueMix& mix, const ParameterTable& table);
// Returns the scales of the blocks' own values: value_scale, or the own weight of a value residual;
// 1 for the first call of a residual, which has its own values alone.
RowScales value_scales(const Plan& plan, const ParameterTable& table);

}  // namespace tg
