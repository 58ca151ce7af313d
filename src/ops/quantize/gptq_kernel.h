#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Columns that the kernel rounds one after the other.
constexpr int kGptqBlock = 128;

// A block of W's columns, in GPTQ's order.
struct GptqBlock {
  const float* weight;  // [rows, columns], rows `weight_stride` apart
  const float* factor;  // U [columns, columns], rows `factor_stride` apart
  const float* scale;   // s [rows]
  std::int8_t* q;       // as weight
  float* error;         // e [rows, columns], contiguous
  std::int64_t rows;
  std::int64_t weight_stride, factor_stride;
  int columns;  // at most kGptqBlock
  float levels;
};

// The sequential part of ops/quantize/gptq.h, with the roundings of its reference.
void gptq_block(const GptqBlock& block, Stream stream);

}  // namespace tg::cuda
