#pragma once
// Copies of parameters, possibly padded (padding.h), that GEMMs read.
#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "model/declarations.h"
#include "model/padding.h"

namespace tg {

// A parameter, or some matrices of a bank, and its gradient, which is undefined if it requires none
// (inference).
struct WeightSource {
  at::Tensor value, gradient;
};
// Allocates the gradient, as zeros, if it is undefined: a captured step needs a fixed address.
WeightSource source_of(const at::Tensor& parameter);
// The matrices of one kind, one per block.
WeightSource source_of(const ParameterTable& table, const BlockMatrices& matrices);

// Position of a matrix [..., rows, columns] in its padded copy: at the beginning of every
// dimension; if `heads` is not 0, dimension `dim` consists of heads, each placed by `runs`.
struct CopyLayout {
  std::int64_t dim = 0, heads = 0;
  std::vector<ChannelRun> runs{};
};
// Pairs of views of corresponding elements.
using Slices = std::vector<std::pair<at::Tensor, at::Tensor>>;
Slices placed(const at::Tensor& whole, const at::Tensor& padded, const CopyLayout& layout);

}  // namespace tg
