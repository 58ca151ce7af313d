#pragma once
#include <ATen/ATen.h>

namespace tg {

// Switches all own kernels on or off (FUSED=0), process-wide. Operations then run their ATen
// reference.
void set_fused(bool on);
// Whether an operation on `x` may use its own kernel: switched on, built with kernels, x on a GPU
// in fp32, bf16 or fp16.
bool use_kernels(const at::Tensor& x);
// The same for the Hopper kernels: also a Hopper GPU, and x in bf16 or fp16.
bool use_hopper_kernels(const at::Tensor& x);

}  // namespace tg
