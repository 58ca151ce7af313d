#pragma once
#include <ATen/ATen.h>

#include <memory>

namespace tg {

// FlashAttention's delta = rowsum(dO ∘ O) (FlashAttention-2, Dao 2023), computed by the backward
// pass of the operation that reads O, which computes dO: the output projection, in its dgrad
// epilogue, or weighted_heads(). Passed to the attention's backward outside autograd; saves a pass
// over O and dO.
struct AttentionDelta {
  bool wanted = false;  // set by the attention's forward pass
  // [heads·parts, rows] fp32, each over a head's channels or one of its equal parts; undefined: not
  // computed.
  at::Tensor sums;
};
// Null if another operation reads O.
using AttentionDeltaPtr = std::shared_ptr<AttentionDelta>;

}  // namespace tg
