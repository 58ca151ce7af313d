#pragma once
#include <ATen/ATen.h>

namespace tg {

// Implementation of an operation: ATen, a CUDA kernel of this program, its Hopper GEMM with the
// operation fused into the prologue or epilogue, or the same GEMM with FP8 operands.
enum class Kernel { aten, cuda, hopper, hopper_fp8 };
const char* kernel_name(Kernel kernel);

// Enables or disables (FUSED=0) all custom kernels, process-wide. When disabled, operations run
// their ATen reference.
void set_fused(bool on);
// Enables or disables (HOPPER=0) Hopper kernels, process-wide. When disabled, operations run as on
// another GPU.
void set_hopper(bool on);
// Whether an operation on `x` may use its custom kernel: kernels are enabled and x is on a GPU in
// fp32, bf16 or fp16.
bool use_kernels(const at::Tensor& x);
// Whether an operation on `x` may use Hopper kernels: use_kernels(x), Hopper kernels that are built
// and enabled, a Hopper GPU, and x in bf16 or fp16.
bool use_hopper_kernels(const at::Tensor& x);

}  // namespace tg
