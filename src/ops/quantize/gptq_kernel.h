#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Columns that one launch quantizes in sequence.
constexpr int kGptqBlock = 128;

// A block of W's columns, in GPTQ's order.
struct GptqBlock {
  const float* weight;  // [rows, columns], rows `weight_stride` apart
  const float* factor;  // U [columns, columns], rows `factor_stride` apart
  const float* scale;   // s [rows]
  std::int8_t* q;       // [rows, columns], rows `weight_stride` apart
  float* error;         // e [rows, columns], contiguous
  std::int64_t rows;
  std::int64_t weight_stride, factor_stride;
  int columns;  // at most kGptqBlock
  float levels;
};

// Runs the sequential part of ops/quantize/gptq.h, bitwise equal to the ATen reference.
void gptq_block(const GptqBlock& block, Stream stream);

}  // namespace tg::cuda
