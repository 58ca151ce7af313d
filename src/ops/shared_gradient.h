#pragma once
// The gradient of a tensor that several operations read. Autograd adds two gradients by reading
// both and writing a third tensor; kernels that know the sum add their part in place.
#include <ATen/ATen.h>

#include <memory>
#include <vector>

namespace tg {

// A sum of gradients to which backward passes add outside autograd.
class GradientSum {
 public:
  explicit GradientSum(const at::Tensor& like)
      : sizes_(like.sizes().vec()), options_(like.options()) {}
  // Whether an operation has written to it.
  bool begun() const { return sum_.defined(); }
  // The sum, uninitialised if it has not begun: the caller then writes all of it.
  const at::Tensor& whole();
  // The sum, zeros if it has not begun.
  const at::Tensor& zeroed();
  // Returns the sum, undefined if it has not begun, and ends it.
  at::Tensor take();

 private:
  std::vector<std::int64_t> sizes_;
  at::TensorOptions options_;
  at::Tensor sum_;
};
using GradientSumPtr = std::shared_ptr<GradientSum>;  // null: autograd adds

// A tensor, and the sum to which the operations that read it may add its gradient. An operation
// that does so returns no gradient to autograd; others know nothing of it.
struct SharedTensor {
  at::Tensor tensor{};
  GradientSumPtr gradient{};
};

// Returns x, to be read by several operations in its place. The gradient of x is that of the result
// and its sum.
SharedTensor shared(const at::Tensor& x);

}  // namespace tg
