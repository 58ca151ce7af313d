#pragma once
// PTX wrappers, one instruction each: mbarrier, TMA, stmatrix, setmaxnreg, wgmma. They compile for
// sm_90a only; ops/mma.cuh has the instructions of every GPU.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "ops/mma.cuh"

namespace tg::cuda::hopper {

// An mbarrier in shared memory. Its phase completes when the expected number of threads has arrived
// and all expected TMA bytes have been written.
using Barrier = std::uint64_t;

__device__ inline void mbarrier_init(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_address(&barrier)),
               "r"(arrivals));
}
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void mbarrier_arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_address(&barrier)) : "memory");
}
__device__ inline void mbarrier_arrive_expect_tx(Barrier& barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_address(&barrier)),
      "r"(bytes)
      : "memory");
}
// Arrives at the same barrier in the shared memory of the CTA with rank `cta`. Relaxed, so it
// orders none of this thread's writes: a release at cluster scope would also wait for its global
// stores.
__device__ inline void mbarrier_arrive_remote(Barrier& barrier, unsigned cta) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(smem_address(&barrier)),
      "r"(cta)
      : "memory");
}
// Spins until the phase with this parity has completed; the first phase has parity 0.
__device__ inline void mbarrier_wait(Barrier& barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(smem_address(&barrier)),
      "r"(parity)
      : "memory");
}

__device__ inline unsigned cta_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Named barriers (hardware ids 0 to 15). `threads` counts those that sync and those that arrive.
__device__ inline void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Loads the 2D box at (column, row); out-of-bounds elements are zero. Completes on `full`.
__device__ inline void tma_load(void* to, const CUtensorMap& tensor, int column, int row,
                                Barrier& full) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(smem_address(to)),
      "l"(&tensor), "r"(column), "r"(row), "r"(smem_address(&full))
      : "memory");
}
// Loads the 4D box at (x, y, z, w); x is the contiguous dimension.
__device__ inline void tma_load(void* to, const CUtensorMap& tensor, int x, int y, int z, int w,
                                Barrier& full) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(smem_address(to)),
      "l"(&tensor), "r"(x), "r"(y), "r"(z), "r"(w), "r"(smem_address(&full))
      : "memory");
}
// Bulk copy of `bytes` contiguous bytes to smem; addresses and size are multiples of 16.
__device__ inline void bulk_load(void* to, const void* from, int bytes, Barrier& full) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(smem_address(to)),
      "l"(from), "r"(bytes), "r"(smem_address(&full))
      : "memory");
}
// Bulk reduction: adds `bytes` of floats to global memory, as its own bulk group, in no defined
// order.
__device__ inline void bulk_add(float* to, const float* from, int bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;" ::"l"(to),
      "r"(smem_address(from)), "r"(bytes)
      : "memory");
}
// Bulk store of `bytes` contiguous bytes, as its own bulk group.
__device__ inline void bulk_store(void* to, const void* from, int bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;" ::"l"(to),
      "r"(smem_address(from)), "r"(bytes)
      : "memory");
}
// Multicasts the box to the same shared-memory offset in every CTA whose bit is set in `cta_mask`;
// completes on each CTA's own `full`.
__device__ inline void tma_load_multicast(void* to, const CUtensorMap& tensor, int column, int row,
                                          Barrier& full, std::uint16_t cta_mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(smem_address(to)),
      "l"(&tensor), "r"(column), "r"(row), "r"(smem_address(&full)), "h"(cta_mask)
      : "memory");
}
// Multicasts the 5D box at (x, y, z, w, v); x is the contiguous dimension.
__device__ inline void tma_load_multicast(void* to, const CUtensorMap& tensor, int x, int y, int z,
                                          int w, int v, Barrier& full, std::uint16_t cta_mask) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(smem_address(to)),
      "l"(&tensor), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "r"(smem_address(&full)), "h"(cta_mask)
      : "memory");
}
// Stores the 2D box at (column, row), as its own bulk group; out-of-bounds elements are dropped.
__device__ inline void tma_store(const CUtensorMap& tensor, int column, int row, const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
      "cp.async.bulk.commit_group;" ::"l"(&tensor),
      "r"(column), "r"(row), "r"(smem_address(from))
      : "memory");
}
// Stores the 4D box at (x, y, z, w), as its own bulk group.
__device__ inline void tma_store(const CUtensorMap& tensor, int x, int y, int z, int w,
                                 const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];\n"
      "cp.async.bulk.commit_group;" ::"l"(&tensor),
      "r"(x), "r"(y), "r"(z), "r"(w), "r"(smem_address(from))
      : "memory");
}
// Waits until at most `pending` of this thread's bulk groups have not yet read shared memory.
template <int pending>
__device__ inline void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
// Waits until all of this thread's bulk groups are complete.
__device__ inline void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// Makes this thread's writes to shared memory visible to the async proxy (TMA, wgmma).
__device__ inline void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Increments a counter in global memory with release semantics: the writes of this thread, and of
// bulk groups that it has waited for, are visible to threads that wait_for_count() lets pass.
__device__ inline void signal_count(int* counter) {
  asm volatile("fence.proxy.async;\nred.release.gpu.global.add.s32 [%0], 1;" ::"l"(counter)
               : "memory");
}
// Spins until the counter is `count`, with acquire semantics. The signaling CTA must be co-resident
// (cooperative launch).
__device__ inline void wait_for_count(const int* counter, int count) {
  int found;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(found) : "l"(counter) : "memory");
  } while (found != count);
  asm volatile("fence.proxy.async;" ::: "memory");
}
// Increments the counter and returns its previous value.
__device__ inline int take_ticket(int* counter) {
  return atomicAdd(counter, 1);
}

// Stores four 8×8 matrices of 16-bit elements; each lane passes the address of one 16-byte row.
__device__ inline void stmatrix_x4(void* row, const unsigned (&words)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(smem_address(row)),
      "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
      : "memory");
}
// Stores them transposed: a lane's 16-byte row is a column of the matrix in the words.
__device__ inline void stmatrix_x4_trans(void* row, const unsigned (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   smem_address(row)),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// Set the registers per thread; all warps of the warpgroup must execute it.
template <int registers>
__device__ inline void setmaxnreg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ inline void setmaxnreg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

// Shared-memory matrix descriptor of an operand that TMA wrote with the 128-byte swizzle, in rows
// of 128 bytes. Offsets in bytes. K-major: `stride_offset` (SBO) is the distance between groups of
// 8 rows, `leading_offset` (LBO) is ignored. MN-major: SBO is the distance between groups of 8
// along K, LBO the distance to the next 64 elements along M or N.
__device__ inline std::uint64_t smem_descriptor(const void* operand, unsigned stride_offset,
                                                unsigned leading_offset) {
  constexpr auto kSwizzle128B = std::uint64_t{1} << 62;
  return std::uint64_t{(smem_address(operand) & 0x3ffff) >> 4} |
         std::uint64_t{leading_offset >> 4} << 16 | std::uint64_t{stride_offset >> 4} << 32 |
         kSwizzle128B;
}

__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int pending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// A thread's fp32 accumulators of one wgmma tile, 64 rows by n columns. Thread t of the warpgroup
// holds rows r = 16·(t / 32) + t % 32 / 4 and r + 8 of columns c = 8·j + 2·(t % 4) and c + 1: (r,
// c), (r, c + 1), (r + 8, c), (r + 8, c + 1) are values[4·j .. 4·j + 3].
template <int n>
struct WgmmaAccumulators {
  float values[n / 2];

  // Called after wgmma_wait: keeps the compiler from moving reads of the accumulators before it.
  __device__ void fence() {
#pragma unroll
    for (float& value : values) asm volatile("" : "+f"(value)::"memory");
  }
};

// Asm operands for the accumulators of a WgmmaAccumulators `d`, and their registers %0 to %(n/2 -
// 1).
#define TG_ACCUMULATORS4(i) \
  "+f"(d.values[i]), "+f"(d.values[i + 1]), "+f"(d.values[i + 2]), "+f"(d.values[i + 3])
#define TG_ACCUMULATORS16(i) \
  TG_ACCUMULATORS4(i), TG_ACCUMULATORS4(i + 4), TG_ACCUMULATORS4(i + 8), TG_ACCUMULATORS4(i + 12)
#define TG_ACCUMULATORS64 TG_ACCUMULATORS16(0), TG_ACCUMULATORS16(16)
#define TG_ACCUMULATORS128 TG_ACCUMULATORS64, TG_ACCUMULATORS16(32), TG_ACCUMULATORS16(48)
#define TG_ACCUMULATORS192 TG_ACCUMULATORS128, TG_ACCUMULATORS16(64), TG_ACCUMULATORS16(80)
#define TG_REGISTERS64                                                   \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TG_REGISTERS128                                                              \
  TG_REGISTERS64                                                                     \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TG_REGISTERS192                                                              \
  TG_REGISTERS128                                                                    \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
// `predicate` names the register of `accumulate`; `operands` follow the accumulators in the
// instruction; the variadic arguments are the asm inputs for these registers.
#define TG_WGMMA(n, k_and_types, predicate, operands, ...)                             \
  asm volatile("{ .reg .pred accumulate; setp.ne.b32 accumulate, " predicate           \
               ", 0; "                                                                 \
               "wgmma.mma_async.sync.aligned.m64n" #n k_and_types " {" TG_REGISTERS##n \
               "}, " operands "; }"                                                    \
               : TG_ACCUMULATORS##n:__VA_ARGS__                                        \
               : "memory")
// wgmma with operands of T, fp16 or bf16.
#define TG_WGMMA_16_BIT(n, T, ...)               \
  if constexpr (std::is_same_v<T, __half>)       \
    TG_WGMMA(n, "k16.f32.f16.f16", __VA_ARGS__); \
  else                                           \
    TG_WGMMA(n, "k16.f32.bf16.bf16", __VA_ARGS__)

// Computes d = a·b, or d += a·b if `accumulate` is not 0, with K of kWgmmaKBytes. a and b are smem
// descriptors of operands of T (bf16, fp16 or e4m3): a is K-major, b is K-major or, if 16-bit,
// N-major.
template <typename T, bool n_major_b>
__device__ inline void wgmma(WgmmaAccumulators<192>& d, std::uint64_t a, std::uint64_t b,
                             int accumulate) {
  if constexpr (std::is_same_v<T, __nv_fp8_e4m3>)
    TG_WGMMA(192, "k32.f32.e4m3.e4m3", "%98", "%96, %97, accumulate, 1, 1", "l"(a), "l"(b),
             "r"(accumulate));
  else
    TG_WGMMA_16_BIT(192, T, "%98", "%96, %97, accumulate, 1, 1, 0, %99", "l"(a), "l"(b),
                    "r"(accumulate), "n"(n_major_b ? 1 : 0));
}
template <typename T, bool n_major_b>
__device__ inline void wgmma(WgmmaAccumulators<128>& d, std::uint64_t a, std::uint64_t b,
                             int accumulate) {
  if constexpr (std::is_same_v<T, __nv_fp8_e4m3>)
    TG_WGMMA(128, "k32.f32.e4m3.e4m3", "%66", "%64, %65, accumulate, 1, 1", "l"(a), "l"(b),
             "r"(accumulate));
  else
    TG_WGMMA_16_BIT(128, T, "%66", "%64, %65, accumulate, 1, 1, 0, %67", "l"(a), "l"(b),
                    "r"(accumulate), "n"(n_major_b ? 1 : 0));
}
// 16-bit operands: both K-major, or A M-major and B N-major.
template <typename T, bool mn_major>
__device__ inline void wgmma(WgmmaAccumulators<64>& d, std::uint64_t a, std::uint64_t b,
                             int accumulate) {
  TG_WGMMA_16_BIT(64, T, "%34", "%32, %33, accumulate, 1, 1, %35, %35", "l"(a), "l"(b),
                  "r"(accumulate), "n"(mn_major ? 1 : 0));
}
// A is in registers (the RS form): 64 rows by 16 columns as packed pairs in the accumulator layout
// (WgmmaAccumulators). B is N-major.
template <typename T, int n>
__device__ inline void wgmma_of_registers(WgmmaAccumulators<n>& d, const unsigned* a,
                                          std::uint64_t b, int accumulate) {
  static_assert(n == 64 || n == 128);
  if constexpr (n == 64) {
    TG_WGMMA_16_BIT(64, T, "%37", "{%32, %33, %34, %35}, %36, accumulate, 1, 1, 1", "r"(a[0]),
                    "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  } else {
    TG_WGMMA_16_BIT(128, T, "%69", "{%64, %65, %66, %67}, %68, accumulate, 1, 1, 1", "r"(a[0]),
                    "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  }
}
#undef TG_WGMMA_16_BIT
#undef TG_WGMMA
#undef TG_REGISTERS192
#undef TG_REGISTERS128
#undef TG_REGISTERS64
#undef TG_ACCUMULATORS192
#undef TG_ACCUMULATORS128
#undef TG_ACCUMULATORS64
#undef TG_ACCUMULATORS16
#undef TG_ACCUMULATORS4

}  // namespace tg::cuda::hopper
