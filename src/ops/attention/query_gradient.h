#pragma once
#include <ATen/ATen.h>

#include <memory>

namespace tg {

// The gradient of q, passed beside autograd from attention's backward kernel to qk_norm_rope's;
// autograd's own gradient is then undefined. Sums in fp32 (query_sum.cuh), which the second rounds
// as it reads them. Saves a pass over the heads.
struct QueryGradient {
  at::Tensor sum;  // [B, heads, padded length, hd]
};
// Null: autograd carries the gradient.
using QueryGradientPtr = std::shared_ptr<QueryGradient>;

}  // namespace tg
