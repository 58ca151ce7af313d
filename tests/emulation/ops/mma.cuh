#pragma once
// Replaces src/ops/mma.cuh: emulates its instructions. A copy completes at once. The lanes of a
// warp exchange operands through memory, since a lane's result depends on those of many others.
#include <cstdint>
#include <cstring>

#include "ops/kernels.cuh"

namespace tg::cuda {

inline void cp_async(void* to, const void* from, bool in_bounds) {
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0 ||
      reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    emulation::fail("a misaligned copy");
  if (in_bounds)
    std::memcpy(to, from, 16);
  else
    std::memset(to, 0, 16);
}
inline void cp_async_wait_all() {}

// What each lane of the running warp passes: brought_by_lanes<Value>()[lane] after a __syncwarp().
template <typename Value>
Value* brought_by_lanes() {
  static Value values[1024 / kWarp][kWarp];
  return values[threadIdx.x / kWarp];
}
// Calls use(what the lanes brought) in each lane.
template <typename Value, typename Use>
void exchange_all(const Value& own, Use use) {
  auto* const all = brought_by_lanes<Value>();
  all[emulation::lane()] = own;
  __syncwarp();
  use(all);
  __syncwarp();
}

template <bool transposed>
void ldmatrix(const void* row, unsigned (&words)[4]) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
    emulation::fail("a misaligned row of a matrix");
  exchange_all(row, [&](const void* const* rows) {
    const unsigned lane = emulation::lane(), at = lane / 4, pair = lane % 4 * 2;
    for (unsigned m = 0; m < 4; ++m)
      for (unsigned i = 0; i < 2; ++i) {
        const unsigned from = transposed ? pair + i : at, column = transposed ? at : pair + i;
        std::memcpy(reinterpret_cast<char*>(&words[m]) + 2 * i,
                    static_cast<const char*>(rows[m * 8 + from]) + 2 * column, 2);
      }
  });
}
inline void ldmatrix_x4(const void* row, unsigned (&words)[4]) {
  ldmatrix<false>(row, words);
}
inline void ldmatrix_x4_trans(const void* row, unsigned (&words)[4]) {
  ldmatrix<true>(row, words);
}

// The operands of a lane, unpacked.
struct MmaOperands {
  float a[8], b[4];
};
template <typename T>
void mma_16x8x16(float* d, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  MmaOperands own;
  for (int w = 0; w < 4; ++w) own.a[2 * w] = low_of<T>(a[w]), own.a[2 * w + 1] = high_of<T>(a[w]);
  own.b[0] = low_of<T>(b0), own.b[1] = high_of<T>(b0);
  own.b[2] = low_of<T>(b1), own.b[3] = high_of<T>(b1);
  exchange_all(own, [&](const MmaOperands* lanes) {
    const int lane = static_cast<int>(emulation::lane()), row = lane / 4, column = lane % 4 * 2;
    for (int e = 0; e < 4; ++e)
      for (int k = 0; k < 16; ++k) {
        const int quad = k % 8 / 2;  // the lane among four that holds element k
        const float x = lanes[row * 4 + quad].a[k / 8 * 4 + e / 2 * 2 + k % 2],
                    y = lanes[(column + e % 2) * 4 + quad].b[k / 8 * 2 + k % 2];
        d[e] += x * y;
      }
  });
}

}  // namespace tg::cuda
