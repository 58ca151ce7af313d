#pragma once
#include <ATen/ATen.h>

#include <memory>

namespace tg {

// dQ passed from attention's backward kernel to qk_norm_rope's outside autograd, whose gradient of
// q is then undefined: the fp32 accumulator (query_sum.cuh), which qk_norm_rope's kernel rounds as
// it reads it. Saves a pass over the heads.
struct QueryGradient {
  at::Tensor sum;  // [B, heads, padded length, hd]
};
// Null: the gradient is passed by autograd.
using QueryGradientPtr = std::shared_ptr<QueryGradient>;

}  // namespace tg
