#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Where a kernel writes what it computes in FP8, divided by *scale, in e4m3 unless said otherwise;
// it raises *amax to the largest magnitude. Contiguous, at an address that is a multiple of 16
// bytes; null `values`: not written.
struct Fp8Copy {
  void* values = nullptr;
  const float* scale = nullptr;
  float* amax = nullptr;
};

// Scales of a GEMM whose operands A and B are e4m3; null: they are 16-bit. `copy` is its output's.
struct Fp8Gemm {
  const float *scale_a = nullptr, *scale_b = nullptr;
  Fp8Copy copy{};
};

// A transpose in FP8 has its rows interleaved: 16 rows r are in the order 0, 8, 1, 9, ..., 7, 15,
// the order of a warp's accumulators of wgmma. Both operands of a weight gradient's GEMM, which
// sums over rows, have that order. Returns the columns of the transpose of a matrix of so many
// rows; columns without a row are zero.
inline constexpr int kInterleavedRows = 16;
constexpr std::int64_t fp8_interleaved(std::int64_t rows) {
  return (rows + kInterleavedRows - 1) / kInterleavedRows * kInterleavedRows;
}
// x [rows, columns] → its transpose [columns, fp8_interleaved(rows)], bytes; contiguous, at
// addresses that are multiples of 16 bytes. `columns` is a multiple of 16.
void fp8_transpose(const void* x, std::int64_t rows, int columns, void* transposed, Stream stream);

inline constexpr int kFp8Chunk = 16;  // elements of a thread

// Writes the copy of x: `count` elements of bf16 or fp16, a multiple of kFp8Chunk; contiguous, at
// an address that is a multiple of 16 bytes.
void fp8_round(const void* x, std::int64_t count, const Fp8Copy& copy, Dtype dtype, Stream stream);

}  // namespace tg::cuda
