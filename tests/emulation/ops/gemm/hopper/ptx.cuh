#pragma once
// Replaces src/ops/gemm/hopper/ptx.cuh: emulates its instructions for kernels of whole blocks.
// Asynchronous operations complete immediately; a wait for an mbarrier lets other threads run.
#include <cuda.h>

#include <cstdint>
#include <cstring>

#include "ops/gemm/hopper/tile.cuh"

namespace tg::cuda::hopper {

inline unsigned shared_offset(const void* pointer) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(pointer) -
                               emulation::dynamic_shared);
}

struct Barrier {
  int arrivals, pending, bytes, phase;

  void end_phase() {
    if (pending == 0 && bytes == 0) pending = arrivals, ++phase;
  }
};
inline void mbarrier_init(Barrier& barrier, int arrivals) {
  barrier = {arrivals, arrivals, 0, 0};
}
inline void fence_mbarrier_init() {}
inline void mbarrier_arrive_expect_tx(Barrier& barrier, int bytes) {
  barrier.bytes += bytes;
  if (--barrier.pending < 0) emulation::fail("more arrivals than an mbarrier expects");
  barrier.end_phase();
}
inline void mbarrier_arrive(Barrier& barrier) {
  mbarrier_arrive_expect_tx(barrier, 0);
}
inline void complete_tx(Barrier& barrier, int bytes) {
  barrier.bytes -= bytes;
  barrier.end_phase();
}
// Lets other threads run while `waits()` returns true; fails if that never ends.
template <typename Waits>
void yield_while(Waits waits, const char* failure) {
  for (int turns = 0; waits(); ++turns) {
    if (turns > 1000000) emulation::fail(failure);
    emulation::yield();
  }
}
inline void mbarrier_wait(const Barrier& barrier, int parity) {
  yield_while([&] { return barrier.phase % 2 == parity; },
              "a phase of an mbarrier that never completes");
}

// For kernels whose blocks do not run concurrently.
inline void named_barrier_sync(int id, int threads) {
  static struct { int arrived, phase; } barriers[16];
  auto& barrier = barriers[id];
  const int phase = barrier.phase;
  if (++barrier.arrived == threads) barrier.arrived = 0, ++barrier.phase;
  yield_while([&] { return barrier.phase == phase; }, "a named barrier that never completes");
}

// A tensor of 16-bit elements, as encode_tensor_map stores it in a CUtensorMap.
struct TensorMap {
  static constexpr int rank = 4;
  unsigned char* tensor;
  std::int64_t sizes[rank], byte_strides[rank];
  int box[rank];

  // Calls visit(element in shared memory, element in the tensor; null out of bounds) for each
  // 16-bit element.
  template <typename Visit>
  void for_each(const void* smem, const int (&at)[rank], Visit visit) const {
    int linear = 0;
    for (int w = 0; w < box[3]; ++w)
      for (int z = 0; z < box[2]; ++z)
        for (int y = 0; y < box[1]; ++y)
          for (int x = 0; x < box[0]; ++x, ++linear) {
            const std::int64_t i[rank] = {at[0] + x, at[1] + y, at[2] + z, at[3] + w};
            auto* element = tensor;
            for (int d = 0; d < rank; ++d)
              element = element == nullptr || i[d] >= sizes[d] ? nullptr
                                                               : element + i[d] * byte_strides[d];
            const unsigned offset = shared_offset(smem) + 2 * linear;
            visit(emulation::dynamic_shared + (offset ^ (offset >> 7 & 7) << 4), element);
          }
  }
};
inline TensorMap tensor_map(const CUtensorMap& map) {
  TensorMap out;
  static_assert(sizeof out <= sizeof map);
  std::memcpy(&out, &map, sizeof out);
  return out;
}
inline void tma_load(void* to, const CUtensorMap& map, int x, int y, int z, int w, Barrier& full) {
  int bytes = 0;
  tensor_map(map).for_each(to, {x, y, z, w}, [&](void* smem, const void* element) {
    std::uint16_t value = 0;
    if (element != nullptr) std::memcpy(&value, element, 2);
    std::memcpy(smem, &value, 2);
    bytes += 2;
  });
  complete_tx(full, bytes);
}
inline void tma_store(const CUtensorMap& map, int x, int y, int z, int w, const void* from) {
  tensor_map(map).for_each(from, {x, y, z, w}, [](const void* smem, void* element) {
    if (element != nullptr) std::memcpy(element, smem, 2);
  });
}
inline void bulk_load(void* to, const void* from, int bytes, Barrier& full) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
  complete_tx(full, bytes);
}
inline void bulk_add(float* to, const float* from, int bytes) {
  for (int i = 0; i < bytes / 4; ++i) to[i] += from[i];
}
inline void bulk_store(void* to, const void* from, int bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
inline void signal_count(int* counter) {
  ++*counter;
}
inline void wait_for_count(const int* counter, int count) {
  yield_while([&] { return *counter != count; }, "a count that is never reached");
}
inline int take_ticket(int* counter) {
  return (*counter)++;
}
template <int pending>
void tma_store_wait_read() {}
inline void bulk_wait() {}
inline void fence_proxy_async_shared() {}
template <int registers>
void setmaxnreg_dealloc() {}
template <int registers>
void setmaxnreg_alloc() {}

inline void stmatrix_x4(void* row, const unsigned (&words)[4]) {
  const unsigned lane = emulation::lane(), own = shared_offset(row);
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    const unsigned offset = emulation::shuffle(own, matrix * 8 + lane / 4);
    std::memcpy(emulation::dynamic_shared + offset + lane % 4 * 4, &words[matrix], 4);
  }
}

// Offsets are in units of 16 bytes, as in the hardware's descriptor.
inline std::uint64_t smem_descriptor(const void* operand, unsigned stride_offset,
                                     unsigned leading_offset) {
  return shared_offset(operand) >> 4 | std::uint64_t{leading_offset >> 4} << 16 |
         std::uint64_t{stride_offset >> 4} << 32;
}
// Returns element (mn, k) of an operand with the 128-byte swizzle.
template <typename T, bool mn_major>
float operand_element(std::uint64_t descriptor, int mn, int k) {
  const auto field = [&](int bit) {
    return static_cast<unsigned>(descriptor >> bit & 0x3fff) << 4;
  };
  const unsigned start = field(0), leading = field(16), stride = field(32);
  const unsigned offset =
      mn_major ? start + mn / 64 * leading + k / 8 * stride + k % 8 * 128 + mn % 64 * 2
               : start + mn / 8 * stride + mn % 8 * 128 + k * 2;
  std::uint16_t bits;
  std::memcpy(&bits, emulation::dynamic_shared + (offset ^ (offset >> 7 & 7) << 4), 2);
  return low_of<T>(bits);
}

// The accumulators of a thread: 4·c/8 + 2·h + i is column c + 2·(lane % 4) + i of row 8·h + lane /
// 4, c in steps of 8, of its warp's 16 rows.
template <int n>
struct WgmmaAccumulators {
  float values[n / 2];

  void fence() {}
};
inline void wgmma_fence() {}
inline void wgmma_commit() {}
template <int pending>
void wgmma_wait() {}

// a(row, k) and b(column, k) return floats; K is 16.
template <int n, typename A, typename B>
void multiply(WgmmaAccumulators<n>& d, A a, B b, int accumulate) {
  const int lane = static_cast<int>(emulation::lane());
  for (int i = 0; i < n / 2; ++i) {
    const int row = i / 2 % 2 * 8 + lane / 4, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    float sum = accumulate ? d.values[i] : 0;
    for (int k = 0; k < 16; ++k) sum += a(row, k) * b(column, k);
    d.values[i] = sum;
  }
}
template <typename T, bool mn_major, int n>
void wgmma(WgmmaAccumulators<n>& d, std::uint64_t a, std::uint64_t b, int accumulate) {
  const int warp = threadIdx.x / kWarp % kWarpgroupWarps;
  multiply(
      d, [&](int row, int k) { return operand_element<T, mn_major>(a, warp * 16 + row, k); },
      [&](int column, int k) { return operand_element<T, mn_major>(b, column, k); }, accumulate);
}
template <typename T, int n>
void wgmma_of_registers(WgmmaAccumulators<n>& d, const unsigned* a, std::uint64_t b,
                        int accumulate) {
  const unsigned lane = emulation::lane();
  float rows[16][16];  // only the thread's two rows are set
  for (unsigned other = 0; other < 4; ++other)
    for (unsigned w = 0; w < 4; ++w) {
      const unsigned pair = emulation::shuffle(a[w], lane / 4 * 4 + other);
      float* const to = &rows[w % 2 * 8 + lane / 4][w / 2 * 8 + other * 2];
      to[0] = low_of<T>(pair), to[1] = high_of<T>(pair);
    }
  multiply(
      d, [&](int row, int k) { return rows[row][k]; },
      [&](int column, int k) { return operand_element<T, true>(b, column, k); }, accumulate);
}

}  // namespace tg::cuda::hopper
