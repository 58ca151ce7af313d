#pragma once
#include "device/launch.h"

namespace tg::cuda {

// FP8 copy of a kernel's output, divided by *scale, in e4m3 unless stated otherwise; the kernel
// raises *amax to the largest magnitude. Contiguous, 16-byte aligned. Null `values`: no copy.
struct Fp8Copy {
  void* values = nullptr;
  const float* scale = nullptr;
  float* amax = nullptr;
};

// FP8 arguments of a GEMM: the scales of its e4m3 operands A and B (null: 16-bit operands), and the
// FP8 copy of its output.
struct Fp8Gemm {
  const float *scale_a = nullptr, *scale_b = nullptr;
  Fp8Copy copy{};
};

// FP8 transposes interleave rows: each group of 16 rows is in the order 0, 8, 1, 9, ..., 7, 15, the
// order of a warp's wgmma accumulators. Both operands of a weight-gradient GEMM, which sums over
// rows, have this order. fp8_interleaved() returns the number of columns of the transpose of a
// matrix of `rows` rows, padded with zero columns to a multiple of 16.
inline constexpr int kInterleavedRows = 16;
constexpr std::int64_t fp8_interleaved(std::int64_t rows) {
  return (rows + kInterleavedRows - 1) / kInterleavedRows * kInterleavedRows;
}
// Transposes the bytes x [rows, columns] to [columns, fp8_interleaved(rows)]; both contiguous and
// 16-byte aligned. `columns` is a multiple of 16.
void fp8_transpose(const void* x, std::int64_t rows, int columns, void* transposed, Stream stream);

inline constexpr int kFp8Chunk = 16;  // elements per thread

// Quantizes x into `copy`: `count` elements of bf16 or fp16, a multiple of kFp8Chunk; contiguous,
// 16-byte aligned.
void fp8_round(const void* x, std::int64_t count, const Fp8Copy& copy, Dtype dtype, Stream stream);

// A bank of `matrices` matrices [rows, columns], contiguous, in bf16 or fp16, and its FP8 copies:
// `values` of the bank's shape and, unless null, `transposed` [matrices, columns, rows], not
// interleaved. Scales, in fp32, are `scale_stride` elements apart. All but scales are 16-byte
// aligned; rows and columns are multiples of kFp8Chunk.
struct Fp8Bank {
  const void* bank;
  std::int64_t matrices, rows, columns;
  const float* scales;
  std::int64_t scale_stride;
  void *values, *transposed;
};
// Computes the copies e4m3(bank / scale).
void fp8_round_bank(const Fp8Bank& bank, Dtype dtype, Stream stream);

}  // namespace tg::cuda
