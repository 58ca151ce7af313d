#pragma once
#include <ATen/ATen.h>

#include <memory>

namespace tg {

// FlashAttention's delta = rowsum(dO ∘ O) (FlashAttention-2, Dao 2023), computed in the dgrad
// epilogue of the output projection: its input x is O, and dx = dy·W is dO. Passed to the
// attention's backward outside autograd; saves a pass over O and dO.
struct AttentionDelta {
  bool wanted = false;  // set by the attention's forward pass
  at::Tensor sums;      // [in / 64, rows] fp32, each over 64 channels; undefined: not computed
};
// Null if another operation lies between the attention and the projection.
using AttentionDeltaPtr = std::shared_ptr<AttentionDelta>;

}  // namespace tg
