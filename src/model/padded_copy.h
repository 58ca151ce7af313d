#pragma once
// From parameters to the copies of them that GEMMs read, which may be padded (padding.h).
#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "model/declarations.h"
#include "model/padding.h"

namespace tg {

// A parameter, or some matrices of a bank, and its gradient: undefined where it requires none, as
// for inference.
struct WeightSource {
  at::Tensor value, gradient;
};
// Allocates the gradient, as zeros, if it is not yet there: a captured step needs a fixed address.
WeightSource source_of(const at::Tensor& parameter);
// The matrices of that kind, one a block.
WeightSource source_of(const ParameterTable& table, const BlockMatrices& matrices);

// Where a matrix [..., rows, columns] is in its padded copy: at the beginning of every dimension;
// of dimension `dim`, if `heads` is not 0, each head by these runs.
struct CopyLayout {
  std::int64_t dim = 0, heads = 0;
  std::vector<ChannelRun> runs{};
};
// Corresponding elements of both, as views.
using Slices = std::vector<std::pair<at::Tensor, at::Tensor>>;
Slices placed(const at::Tensor& whole, const at::Tensor& padded, const CopyLayout& at);

}  // namespace tg
