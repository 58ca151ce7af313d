#pragma once
// Hopper's own instructions, a function each: barriers in shared memory, copies of tiles by the
// tensor copy engine, products of a warpgroup (four warps). For sm_90a alone.
#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

namespace tg::cuda::hopper {

__device__ inline unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

// A barrier's phase ends when so many threads have arrived and all expected bytes have landed.
using Barrier = std::uint64_t;

__device__ inline void init(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)),
               "r"(arrivals));
}
__device__ inline void fence_inits() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier))
               : "memory");
}
__device__ inline void arrive_and_expect(Barrier& barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
      "r"(bytes)
      : "memory");
}
// At the same barrier of a block of the cluster. Orders nothing that this thread wrote: a release
// to the cluster would wait for its writes to global memory as well.
__device__ inline void arrive_at(Barrier& barrier, unsigned block) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there];\n"
      "}\n" ::"r"(shared_address(&barrier)),
      "r"(block)
      : "memory");
}
// Until the phase of that parity has ended; phases count from 0.
__device__ inline void wait(Barrier& barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
}

__device__ inline unsigned block_of_cluster() {
  unsigned block;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(block));
  return block;
}
__device__ inline void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Barriers of the hardware, by number: `threads` wait and arrive in all.
__device__ inline void sync_named(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ inline void arrive_named(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// A box of the tensor from (column, row), zeros where it is beyond the tensor.
__device__ inline void load_tile(void* to, const CUtensorMap& tensor, int column, int row,
                                 Barrier& landed) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
      "l"(&tensor), "r"(column), "r"(row), "r"(shared_address(&landed))
      : "memory");
}
// To the same place of every block in `blocks`, at each of which `landed` counts the bytes.
__device__ inline void load_tile(void* to, const CUtensorMap& tensor, int column, int row,
                                 Barrier& landed, std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
      "l"(&tensor), "r"(column), "r"(row), "r"(shared_address(&landed)), "h"(blocks)
      : "memory");
}
// What lies beyond the tensor is not written.
__device__ inline void store_tile(const CUtensorMap& tensor, int column, int row,
                                  const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
      "cp.async.bulk.commit_group;" ::"l"(&tensor),
      "r"(column), "r"(row), "r"(shared_address(from))
      : "memory");
}
// Until all but the last `pending` of this thread's stores have read their shared memory.
template <int pending>
__device__ inline void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
// Before the copy engine or a product reads what this thread wrote to shared memory.
__device__ inline void fence_shared_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Four 8×8 matrices of 16-bit numbers; a lane names a row of 16 bytes.
__device__ inline void load_matrices(const void* row, unsigned (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ inline void store_matrices(void* row, const unsigned (&words)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
      "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
      : "memory");
}

template <int registers>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

// A factor in shared memory, as copies with the 128-byte swizzle leave it: rows of 64 numbers.
// Rows along K (K-major): `group_stride` bytes between groups of 8 rows, the other ignored. Rows
// along M or N: `group_stride` between groups of 8 along K, `chunk_stride` to the next 64.
__device__ inline std::uint64_t swizzled_factor(const void* at, unsigned group_stride,
                                                unsigned chunk_stride) {
  return std::uint64_t{(shared_address(at) & 0x3ffff) >> 4} |
         std::uint64_t{chunk_stride >> 4} << 16 | std::uint64_t{group_stride >> 4} << 32 |
         std::uint64_t{1} << 62;
}

__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int pending>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Sums of a warpgroup, 64 rows. Thread t has rows 16·(t / 32) + t % 32 / 4, and that + 8, of
// columns 8·j + 2·(t % 4) and the next, in [4·j .. 4·j + 3].
template <int columns>
struct Sums {
  float of[columns / 2];

  // Keeps the compiler from using the sums before the products are waited for.
  __device__ void settle() {
#pragma unroll
    for (float& sum : of) asm volatile("" : "+f"(sum)::"memory");
  }
};

#define TG_SUMS4(i) "+f"(d.of[i]), "+f"(d.of[i + 1]), "+f"(d.of[i + 2]), "+f"(d.of[i + 3])
#define TG_SUMS16(i) TG_SUMS4(i), TG_SUMS4(i + 4), TG_SUMS4(i + 8), TG_SUMS4(i + 12)
// d (+)= a·b, 16 deep. `n_major`: b's rows are along N.
template <bool n_major>
__device__ inline void multiply(Sums<192>& d, std::uint64_t a, std::uint64_t b, int add) {
  asm volatile(
      "{\n"
      ".reg .pred keep;\n"
      "setp.ne.b32 keep, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
      "%96, %97, keep, 1, 1, 0, %99;\n"
      "}\n"
      : TG_SUMS16(0), TG_SUMS16(16), TG_SUMS16(32), TG_SUMS16(48), TG_SUMS16(64), TG_SUMS16(80)
      : "l"(a), "l"(b), "r"(add), "n"(n_major ? 1 : 0)
      : "memory");
}
template <bool n_major>
__device__ inline void multiply(Sums<128>& d, std::uint64_t a, std::uint64_t b, int add) {
  asm volatile(
      "{\n"
      ".reg .pred keep;\n"
      "setp.ne.b32 keep, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, keep, 1, 1, 0, %67;\n"
      "}\n"
      : TG_SUMS16(0), TG_SUMS16(16), TG_SUMS16(32), TG_SUMS16(48)
      : "l"(a), "l"(b), "r"(add), "n"(n_major ? 1 : 0)
      : "memory");
}
#undef TG_SUMS16
#undef TG_SUMS4

}  // namespace tg::cuda::hopper
