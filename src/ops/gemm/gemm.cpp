#include "ops/gemm/gemm.h"

#include "ops/fused.h"
#include "ops/gemm/algorithm_choice.h"

namespace tg {

namespace {

// Whether LtGemm supports the matrix. If row sizes are not multiples of 16 bytes, as TMA requires,
// cublasLt uses kernels with other summation orders: these GEMMs are left to LibTorch.
bool is_supported(const at::Tensor& x) {
  return x.is_contiguous() && reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 256 == 0 &&
         x.size(1) * x.element_size() % 16 == 0;
}

}  // namespace

bool gemm_by_choice(const GemmTensors& tensors, bool accumulates, bool fast) {
  const auto& [a, b, out, scale_a, scale_b] = tensors;
  // CPU tests of the callers pass CPU tensors.
  if (!out.is_cuda() || !use_kernels(out) || a.scalar_type() == at::kFloat) return false;
  if (out.numel() == 0 || a.numel() == 0) return false;
  const bool a_transposed = !a.is_contiguous(), b_transposed = !b.is_contiguous();
  if (!is_supported(a_transposed ? a.t() : a) || !is_supported(b_transposed ? b.t() : b) ||
      !is_supported(out))
    return false;
  return launch_chosen({.m = out.size(0),
                        .n = out.size(1),
                        .k = a.size(1),
                        .a_dtype = a.scalar_type(),
                        .b_dtype = b.scalar_type(),
                        .out_dtype = out.scalar_type(),
                        .a_transposed = a_transposed,
                        .b_transposed = b_transposed,
                        .accumulates = accumulates,
                        .fast = fast},
                       tensors);
}

at::Tensor gemm(const at::Tensor& a, const at::Tensor& b) {
  if (use_kernels(a) && a.is_contiguous() && !at::GradMode::is_enabled()) {
    auto sizes = a.sizes().vec();
    sizes.back() = b.size(1);
    const auto out = at::empty(sizes, a.options());
    if (gemm_by_choice({a.view({-1, a.size(-1)}), b, out.view({-1, b.size(1)})})) return out;
  }
  return at::matmul(a, b);
}

}  // namespace tg
