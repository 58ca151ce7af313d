#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Where a kernel writes an e4m3 copy of what it computes, divided by *scale; it raises *amax to the
// largest magnitude. Contiguous, at an address that is a multiple of 16 bytes; null `values`: no
// copy.
struct Fp8Copy {
  void* values = nullptr;
  const float* scale = nullptr;
  float* amax = nullptr;
};

// Of a GEMM whose operands A and B are e4m3, times these scales; null: they are 16-bit. `copy` is
// of its output.
struct Fp8Gemm {
  const float *scale_a = nullptr, *scale_b = nullptr;
  Fp8Copy copy{};
};

inline constexpr int kFp8Chunk = 16;  // elements of a thread

// Writes the copy of x: `count` elements of bf16 or fp16, a multiple of kFp8Chunk; contiguous, at
// an address that is a multiple of 16 bytes.
void fp8_round(const void* x, std::int64_t count, const Fp8Copy& copy, Dtype dtype, Stream stream);

}  // namespace tg::cuda
