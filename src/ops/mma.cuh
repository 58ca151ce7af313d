#pragma once
// PTX wrappers, one instruction each, for every GPU from sm_80 on: asynchronous copies to shared
// memory, ldmatrix and mma.sync. ops/gemm/hopper/ptx.cuh has those for sm_90a only.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

namespace tg::cuda {

__device__ inline unsigned smem_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Starts a copy of 16 bytes from global to shared memory; writes zeros and reads nothing if
// `in_bounds` is false.
__device__ inline void cp_async(void* to, const void* from, bool in_bounds) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_address(to)), "l"(from),
               "r"(in_bounds ? 16 : 0)
               : "memory");
}
// Waits for all copies that this thread started; other threads see them after a barrier.
__device__ inline void cp_async_wait_all() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// Load four 8×8 matrices of 16-bit elements; each lane passes the address of one 16-byte row, lane
// 8·m + r that of row r of matrix m. A lane gets elements 2·(lane % 4) and the next of row lane /
// 4, of a matrix transposed by ldmatrix_x4_trans().
__device__ inline void ldmatrix_x4(const void* row, unsigned (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(smem_address(row))
               : "memory");
}
__device__ inline void ldmatrix_x4_trans(const void* row, unsigned (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(smem_address(row))
               : "memory");
}

// d [16, 8] += a [16, 16] · b [16, 8] in fp32; a and b are packed pairs of T (bf16 or fp16). With
// row = lane / 4 and column = 2·(lane % 4), a lane holds
//   d: (row, column), (row, column + 1), then the same of row + 8;
//   a: the pairs at (row, column), (row + 8, column), (row, column + 8), (row + 8, column + 8);
//   b: the pairs of rows (column, column + 1) and (column + 8, column + 9) in column `row`.
template <typename T>
__device__ inline void mma_16x8x16(float* d, const unsigned (&a)[4], unsigned b0, unsigned b1) {
#define TG_MMA(type)                                                                  \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                 \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    TG_MMA("bf16");
  else
    TG_MMA("f16");
#undef TG_MMA
}

}  // namespace tg::cuda
