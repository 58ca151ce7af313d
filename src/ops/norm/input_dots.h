#pragma once
#include <ATen/ATen.h>

#include <memory>

namespace tg {

// x·dx of a projection's input, from the epilogue of dx = dy·W, which has both, past autograd to
// the backward pass of the attention whose result x is (rowsum(dO ∘ O) in FlashAttention-2, Dao
// 2023). Saves a pass over both.
struct InputDots {
  bool wanted = false;  // set by the forward pass of that attention
  at::Tensor sums;      // [in / 64, rows] fp32, each over 64 channels; undefined: not computed
};
// Null where another operation is between the two.
using InputDotsPtr = std::shared_ptr<InputDots>;

}  // namespace tg
