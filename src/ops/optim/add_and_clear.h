#pragma once
#include <ATen/ATen.h>

namespace tg {

// to ← to + from, then from ← 0, in one pass that leaves out what is zero in `from`, such as
// gradients of embedding rows that no token had. `to` and `from` have one shape and any dtype; sums
// are rounded once. With skip [] fp32, 1 instead of 0 only clears `from`, whatever it holds.
void add_and_clear(const at::Tensor& to, const at::Tensor& from, const at::Tensor& skip = {});

}  // namespace tg
