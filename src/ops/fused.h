#pragma once
#include <ATen/ATen.h>

namespace tg {

// FUSED=0 turns every own kernel off, for the whole process: each operation then runs as its
// reference.
void set_fused(bool on);
// Whether an operation on `x` may run as an own kernel: switched on, x on a GPU in fp32, bf16 or
// fp16.
bool use_kernels(const at::Tensor& x);
// The same of the kernels for Hopper GPUs, which take bf16.
bool use_hopper_kernels(const at::Tensor& x);

}  // namespace tg
