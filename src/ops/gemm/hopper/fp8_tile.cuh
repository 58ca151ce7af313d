#pragma once
// FP8 for the epilogues of gemm.cuh: which operands a GEMM has, and outputs that the GEMMs of a
// forward and of a backward pass read in FP8.
#include "ops/gemm/fp8.cuh"
#include "ops/gemm/hopper/gemm_launch.cuh"

namespace tg::cuda::hopper {

inline OperandScales operand_scales(const Fp8Gemm& fp8) {
  return {fp8.scale_a, fp8.scale_b};
}

// Calls op(T{}, Operand{}), T being `dtype` and Operand the dtype of A and B.
template <typename Op>
void dispatch_operand(const Fp8Gemm& fp8, Dtype dtype, Op op) {
  if (fp8.scale_a != nullptr) return op(__nv_bfloat16{}, __nv_fp8_e4m3{});
  dispatch_half(dtype, [&](auto zero) { op(zero, zero); });
}

// The rows of D in FP8, beside D, which is its transpose.
struct Fp8Rows {
  Fp8Copy copy;
  int rows, columns;  // columns is a multiple of 16
};

// A consumer thread's part of a tile of D, and of Fp8Rows where D is in FP8.
template <typename Element, bool fp8 = is_transposed<Element>>
struct OutputTile {
  OutputTile() = default;
  __device__ OutputTile(const Fp8Rows&, int, int) {}
  // `values`: of a thread's accumulators of `chunk` and the next, a row's two columns and the other
  // row's in turns; of FP8 divided by the scale.
  __device__ void store(const SubtileView<Element>& smem, int, int chunk,
                        const float (&values)[8]) const {
    smem.store_rounded(chunk, values);
  }
  // After the last subtile.
  __device__ void end() const {}
};

template <typename Element>
struct OutputTile<Element, true> {
  static constexpr int kStoredBytes = 16;                  // of a row, by a lane at once
  static constexpr int kStoredColumns = 2 * kStoredBytes;  // by the four lanes of two rows
  const Fp8Rows& output;
  int first_row, first_column;
  float scale, amax = 0;
  unsigned words[4];    // two of a row, two of the one 8 below; each has 2 columns of two chunks
  unsigned columns[4];  // of the transpose, as SubtileView stores them

  __device__ OutputTile(const Fp8Rows& of, int row, int column)
      : output(of), scale(*of.copy.scale) {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % kWarpgroupWarps;
    first_row = row + warp * 16 + lane / 4 + lane % 4 / 2 * 8;
    first_column = column + lane % 2 * kStoredBytes;
  }

  __device__ void store(const SubtileView<Element>& smem, int subtile, int chunk,
                        const float (&values)[8]) {
    unsigned pairs[4];
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const float low = values[2 * p], high = values[2 * p + 1];
      amax = larger_of(larger_of(amax, low), high);
      pairs[p] = fp8_pair<Element>(low, high);
    }
    const int half = chunk / 2 % 2;
    words[half] = __byte_perm(pairs[0], pairs[2], 0x5410);
    words[2 + half] = __byte_perm(pairs[1], pairs[3], 0x5410);
    columns[2 * half] = __byte_perm(pairs[0], pairs[1], 0x5140);
    columns[2 * half + 1] = __byte_perm(pairs[2], pairs[3], 0x5140);
    if (half == 0) return;
    smem.store(chunk - 2, columns);
    store_rows(smem.mma * kWgmmaM, subtile * kSubtileN + chunk / 4 * kStoredColumns);
  }
  __device__ void end() const {
    raise_amax(output.copy.amax, amax * scale, /*reads_first=*/false);
  }

 private:
  // The four lanes of two rows transpose their words: each has then 16 columns of one row.
  __device__ void store_rows(int row_offset, int column_offset) {
    auto& w = words;
    exchange(w[0], w[1], 1), exchange(w[2], w[3], 1);
    exchange(w[0], w[2], 2), exchange(w[1], w[3], 2);
    const int row = first_row + row_offset, column = first_column + column_offset;
    const auto at = std::int64_t{row} * output.columns + column;
    // Low halves are of the first chunk, high ones of the second.
    const auto bytes = make_uint4(__byte_perm(w[0], w[1], 0x5410), __byte_perm(w[2], w[3], 0x5410),
                                  __byte_perm(w[0], w[1], 0x7632), __byte_perm(w[2], w[3], 0x7632));
    if (row < output.rows && column < output.columns)
      *reinterpret_cast<uint4*>(static_cast<unsigned char*>(output.copy.values) + at) = bytes;
  }
  // Swaps `b` of the lanes without `bit` for `a` of those with it.
  __device__ static void exchange(unsigned& a, unsigned& b, unsigned bit) {
    const bool upper = (threadIdx.x & bit) != 0;
    const unsigned received = __shfl_xor_sync(0xffffffff, upper ? a : b, bit);
    (upper ? a : b) = received;
  }
};

// Stores op(accumulator, row) for the 32 accumulators of one wgmma tile of a subtile, in order; row
// 0 is the first of the thread's two.
template <typename Element, typename Op>
__device__ void store_each(OutputTile<Element>& output, const SubtileView<Element>& smem,
                           int subtile, const float* accumulators, Op op) {
#pragma unroll
  for (int chunk = 0; chunk < kSubtileN / 8; chunk += 2) {
    float d[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) d[i] = op(accumulators[4 * chunk + i], i / 2 % 2);
    output.store(smem, subtile, chunk, d);
  }
}

}  // namespace tg::cuda::hopper
