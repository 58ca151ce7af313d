#pragma once
#include <ATen/ATen.h>

namespace tg {

// Implementation of an operation: ATen, a CUDA kernel of this program, or its Hopper GEMM with the
// operation fused into the prologue or epilogue; *_fp8: with FP8 operands of the GEMMs.
enum class Kernel { aten, cuda, cuda_fp8, hopper, hopper_fp8 };
inline bool in_fp8(Kernel kernel) {
  return kernel == Kernel::cuda_fp8 || kernel == Kernel::hopper_fp8;
}
inline bool on_hopper(Kernel kernel) {
  return kernel == Kernel::hopper || kernel == Kernel::hopper_fp8;
}
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
// Whether Hopper kernels are built and enabled, and the GPU is a Hopper. Requires a GPU.
bool has_hopper_kernels();
// Whether an operation on `x` may use Hopper kernels: use_kernels(x), has_hopper_kernels(), and x
// in bf16 or fp16.
bool use_hopper_kernels(const at::Tensor& x);
// Whether GEMMs of x may have FP8 operands: use_kernels(x), a GPU with FP8 tensor cores, and x in
// bf16.
bool use_fp8_gemms(const at::Tensor& x);

}  // namespace tg
