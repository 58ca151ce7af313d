#pragma once
// FP8 for the epilogues of gemm.cuh: which operands a GEMM has, and an e4m3 copy of D, written
// beside D itself for the next GEMM.
#include "ops/gemm/fp8.cuh"
#include "ops/gemm/hopper/gemm_launch.cuh"

namespace tg::cuda::hopper {

struct Fp8Output {
  Fp8Copy copy{};
  int rows, columns;  // of D; columns is a multiple of 16
};
inline Fp8Output fp8_output(const Fp8Gemm& fp8, const GemmProblem& problem) {
  return {fp8.copy, problem.m, problem.n};
}
inline OperandScales operand_scales(const Fp8Gemm& fp8) {
  return {fp8.scale_a, fp8.scale_b};
}

// Calls op(T{}, Operand{}), T being `dtype` and Operand that of A and B.
template <typename Op>
void dispatch_operand(const Fp8Gemm& fp8, Dtype dtype, Op op) {
  if (fp8.scale_a != nullptr) return op(__nv_bfloat16{}, __nv_fp8_e4m3{});
  dispatch_half(dtype, [&](auto zero) { op(zero, zero); });
}

// A consumer thread's part of a tile. Without FP8 operands there is no copy, and no code for one.
template <typename Operand>
struct Fp8Tile {
  __device__ Fp8Tile(const Fp8Output&, int, int) {}
  __device__ void add(int, int, int, const uint4&) {}
  __device__ void end() const {}
};

template <>
struct Fp8Tile<__nv_fp8_e4m3> {
  static constexpr int kStoredBytes = 16;                  // of a row, by a lane at once
  static constexpr int kStoredColumns = 2 * kStoredBytes;  // by the four lanes of two rows
  const Fp8Output& output;
  int first_row, first_column;
  float inverse_scale, amax = 0;
  unsigned words[4];  // two of a row, two of the one 8 below; each has 2 columns of two chunks

  __device__ Fp8Tile(const Fp8Output& of, int row, int column)
      : output(of), inverse_scale(1 / *of.copy.scale) {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % kWarpgroupWarps;
    first_row = row + warp * 16 + lane / 4 + lane % 4 / 2 * 8;
    first_column = column + lane % 2 * kStoredBytes;
  }

  // `rounded`: what SubtileView::store_rounded() returns for `chunk` and the next.
  __device__ void add(int subtile, int mma, int chunk, const uint4& rounded) {
    const int word = chunk / 2 % 2;
    words[word] = fp8_pair_of(rounded.x) | fp8_pair_of(rounded.z) << 16;
    words[2 + word] = fp8_pair_of(rounded.y) | fp8_pair_of(rounded.w) << 16;
    if (word == 1) store(mma * kWgmmaM, subtile * kSubtileN + chunk / 4 * kStoredColumns);
  }
  // After the last subtile.
  __device__ void end() const { raise_amax(output.copy.amax, amax); }

 private:
  __device__ unsigned fp8_pair_of(unsigned pair) {
    const float low = low_of<__nv_bfloat16>(pair), high = high_of<__nv_bfloat16>(pair);
    amax = larger_of(larger_of(amax, low), high);
    return fp8_pair(low * inverse_scale, high * inverse_scale);
  }
  // The four lanes of two rows transpose their words: each has then 16 columns of one row.
  __device__ void store(int row_offset, int column_offset) {
    auto& w = words;
    exchange(w[0], w[1], 1), exchange(w[2], w[3], 1);
    exchange(w[0], w[2], 2), exchange(w[1], w[3], 2);
    const int row = first_row + row_offset, column = first_column + column_offset;
    if (row >= output.rows || column >= output.columns) return;
    // Low halves are of the first chunk, high ones of the second.
    const auto at = std::int64_t{row} * output.columns + column;
    *reinterpret_cast<uint4*>(static_cast<unsigned char*>(output.copy.values) + at) =
        make_uint4(__byte_perm(w[0], w[1], 0x5410), __byte_perm(w[2], w[3], 0x5410),
                   __byte_perm(w[0], w[1], 0x7632), __byte_perm(w[2], w[3], 0x7632));
  }
  // Swaps `b` of the lanes without `bit` for `a` of those with it.
  __device__ static void exchange(unsigned& a, unsigned& b, unsigned bit) {
    const bool upper = (threadIdx.x & bit) != 0;
    const unsigned received = __shfl_xor_sync(0xffffffff, upper ? a : b, bit);
    (upper ? a : b) = received;
  }
};

}  // namespace tg::cuda::hopper
