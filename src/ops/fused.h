#pragma once
#include <ATen/ATen.h>

namespace tg {

// Whose code computes an operation: LibTorch's, an own kernel's, an own Hopper GEMM's with the
// operation in its prologue or epilogue, or that GEMM's with FP8 operands.
enum class Kernel { aten, cuda, hopper, hopper_fp8 };
const char* kernel_name(Kernel kernel);

// Switches all own kernels on or off (FUSED=0), process-wide. Operations then run their ATen
// reference.
void set_fused(bool on);
// Whether an operation on `x` may use its own kernel: switched on, built with kernels, x on a GPU
// in fp32, bf16 or fp16.
bool use_kernels(const at::Tensor& x);
// use_kernels() for the Hopper kernels: also requires a Hopper GPU, and x in bf16 or fp16.
bool use_hopper_kernels(const at::Tensor& x);

}  // namespace tg
