#pragma once
#include "device/launch.h"

namespace tg::cuda {

// [rows, heads, hd], a row a token: the numbers of a head adjoin, heads and rows lie `head_stride`
// and `row_stride` numbers apart. All three starts are multiples of 16 bytes. Null is all zeros.
struct HeadVectors {
  const void* data;
  std::int64_t row_stride, head_stride;
};

// The longest head, in accesses of 16 bytes: one by each thread of a warp.
constexpr int kMostPacksPerHead = 32;

}  // namespace tg::cuda
