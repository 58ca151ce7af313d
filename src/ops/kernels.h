#pragma once
// Between tensors and the launchers of kernels.
#include <ATen/ATen.h>

#include <limits>

#include "device/launch.h"
#include "device/stream.h"
#include "ops/fused.h"

namespace tg {

inline cuda::Float float_of(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat      ? cuda::Float::fp32
         : x.scalar_type() == at::kBFloat16 ? cuda::Float::bf16
                                            : cuda::Float::fp16;
}

// At an address that is a multiple of a kernel's access of 16 bytes.
inline bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}
// As kernels take tensors that are not strided.
inline bool is_packed(const at::Tensor& x) {
  return x.is_contiguous() && is_aligned(x);
}
// x, or a copy of it; undefined stays undefined.
inline at::Tensor packed(const at::Tensor& x) {
  return !x.defined() || is_packed(x) ? x : x.clone(at::MemoryFormat::Contiguous);
}
// Whether gemm/hopper/ can multiply x, once packed, by this matrix [out, in], and its gradients by
// it: the copy engine takes rows of whole 16 bytes.
inline bool is_hopper_product(const at::Tensor& x, const at::Tensor& matrix) {
  return use_hopper_kernels(x) && x.numel() / x.size(-1) < std::numeric_limits<int>::max() / 2 &&
         matrix.scalar_type() == at::kBFloat16 && is_packed(matrix) && matrix.size(0) % 8 == 0 &&
         matrix.size(1) % 8 == 0;
}

// Null for an undefined tensor: an operand that is left out.
inline const void* read(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr() : nullptr;
}
inline void* write(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr() : nullptr;
}
inline const float* read_fp32(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}
inline float* write_fp32(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<float>() : nullptr;
}

}  // namespace tg
