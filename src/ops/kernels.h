#pragma once
// Converts tensors into arguments of the kernel launchers.
#include <ATen/ATen.h>

#include <limits>

#include "device/launch.h"
#include "device/stream.h"
#include "ops/fused.h"

namespace tg {

// x is fp32, bf16 or fp16 (use_kernels).
inline cuda::Dtype dtype_of(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat      ? cuda::Dtype::fp32
         : x.scalar_type() == at::kBFloat16 ? cuda::Dtype::bf16
                                            : cuda::Dtype::fp16;
}

// Whether x is aligned for 16-byte vector accesses.
inline bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}
// The layout that kernels without stride arguments require.
inline bool is_aligned_contiguous(const at::Tensor& x) {
  return x.is_contiguous() && is_aligned(x);
}
// Whether no other tensor shares x or its storage, so that an operation may overwrite it.
inline bool is_sole_owner(const at::Tensor& x) {
  return x.defined() && x.use_count() == 1 && x.storage().use_count() == 1;
}
// Returns x itself or a copy; undefined if x is undefined.
inline at::Tensor aligned_contiguous(const at::Tensor& x) {
  return !x.defined() || is_aligned_contiguous(x) ? x : x.clone(at::MemoryFormat::Contiguous);
}
// Whether the rows of aligned_contiguous(x) [..., in], x·Wᵀ and W [out, in], in 16 bits, are
// multiples of 16 bytes, as TMA and vector accesses require.
inline bool has_aligned_rows(const at::Tensor& x, const at::Tensor& weight) {
  return x.numel() / x.size(-1) < std::numeric_limits<int>::max() / 2 &&
         weight.scalar_type() == x.scalar_type() && is_aligned_contiguous(weight) &&
         weight.size(0) % 8 == 0 && weight.size(1) % 8 == 0;
}
// Whether the GEMM of gemm/hopper/ can compute x·Wᵀ and dy·W.
inline bool supports_hopper_gemm(const at::Tensor& x, const at::Tensor& weight) {
  return use_hopper_kernels(x) && has_aligned_rows(x, weight);
}

// Data pointers for launchers; null for an undefined tensor.
inline const void* const_data(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr() : nullptr;
}
inline void* mutable_data(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr() : nullptr;
}
inline const float* const_fp32_data(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}
inline float* mutable_fp32_data(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<float>() : nullptr;
}

// Makes the argument of a launcher that allocates a workspace, on x's device. The memory is free
// for later operations of the stream when the argument is destroyed.
inline cuda::Workspace workspace_like(const at::Tensor& x) {
  return [fp32 = x.options().dtype(at::kFloat), memory = at::Tensor()](std::int64_t count) mutable {
    memory = at::empty({count}, fp32);
    return memory.mutable_data_ptr<float>();
  };
}

}  // namespace tg
