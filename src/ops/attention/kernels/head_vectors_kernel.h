#pragma once
#include "device/launch.h"

namespace tg::cuda {

// View of a tensor [tokens, heads, hd]: the elements of a head are contiguous; strides count
// elements. Base address and strides are multiples of 16 bytes. Null data reads as zeros.
struct HeadVectors {
  const void* data;
  std::int64_t token_stride, head_stride;
};

// The largest head, in packs of 16 bytes: one per lane of a warp.
constexpr int kMaxPacksPerHead = 32;

}  // namespace tg::cuda
