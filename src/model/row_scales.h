#pragma once
// Learned scales of what a matrix multiplies to, folded into its rows: W' = s ⊙ W.
#include <ATen/ATen.h>

#include <vector>

#include "model/padded_copy.h"
#include "model/plan.h"

namespace tg {

// Of the matrices of a bank: s = offset + factor·parameter, of [rows] or [1] each; none where
// empty. A source without a gradient is a constant.
struct RowScales {
  std::vector<WeightSource> parameters{};
  double offset = 0, factor = 1;

  bool empty() const { return parameters.empty(); }
  at::Tensor columns() const;  // s [matrices, rows or 1, 1]
  // `gradient` of W' becomes that of W, s ⊙ dW'; ds = Σ dW' ⊙ W over a row is added to the
  // parameters'.
  void unscale(const at::Tensor& gradient, const at::Tensor& value) const;
};

// `scale` of all blocks.
RowScales output_scales(const Plan& plan, const ParameterTable& table,
                        ParameterId BlockPlan::*scale);
// Of a visit's own values in a value residual, [], where it is not the first one: WeightCopies has
// it in the projection, what is added to that takes it by itself.
at::Tensor own_value_weight(const ValueMix& mix, const ParameterTable& table);
// What the blocks multiply their own values by: value_scale, or the own weight of a value residual.
// The first visit of a residual has its own values alone: there s is 1.
RowScales value_scales(const Plan& plan, const ParameterTable& table);

}  // namespace tg
