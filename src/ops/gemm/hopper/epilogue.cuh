#pragma once
// What the epilogues of gemm.cuh are made of. They load scales of operands and rows (OperandScales,
// RowScale) and the tile of C (combine_with_c), reduce over rows (ThreadRows::for_each_sum) and
// store D (store_each, combine_with_c), in FP8 as GEMMs of the forward pass (row-major) and of
// weight gradients (transposed) read it.
#include "ops/gemm/fp8.cuh"
#include "ops/gemm/hopper/gemm_launch.cuh"

namespace tg::cuda::hopper {

inline OperandScales operand_scales(const Fp8Gemm& fp8) {
  return {fp8.scale_a, fp8.scale_b};
}

// Calls op(T{}, Operand{}): T is the type of `dtype` (bf16 with FP8 operands), Operand the type of
// A and B.
template <typename Op>
void dispatch_operand(const Fp8Gemm& fp8, Dtype dtype, Op op) {
  if (fp8.scale_a != nullptr) return op(__nv_bfloat16{}, __nv_fp8_e4m3{});
  dispatch_half(dtype, [&](auto zero) { op(zero, zero); });
}

// Scales of the rows of A·B: the RMSNorm before a GEMM. FP8 rows are scaled before quantization and
// have no RowScale.
struct RowScale {
  const float* values = nullptr;  // [rows]; null: 1
  int rows = 0;
};

// Scales of a consumer thread's rows. Construct it with the epilogue's Tile, so that the loads
// overlap the last wgmma. Epilogues fold the scales into factors that they already apply, since an
// extra multiplication per accumulator is measurable.
struct ThreadRowScales {
  float values[kWgmmaTiles][2];

  __device__ ThreadRowScales(const RowScale& scale, const ThreadRows& rows) {
    rows.for_each([&](int mma, int half, int row) {
      values[mma][half] = scale.values == nullptr ? 1 : scale.values[min(row, scale.rows - 1)];
    });
  }
};

// Row-major FP8 copy of the output; D itself is its transpose.
struct Fp8Rows {
  Fp8Copy copy;
  int rows, columns;  // columns is a multiple of 16
};

// Writes a consumer thread's part of a tile of D, and of Fp8Rows if D is in FP8.
template <typename Element, bool fp8 = is_transposed<Element>>
struct OutputTile {
  OutputTile() = default;
  __device__ OutputTile(const Fp8Rows&, int, int) {}
  // `values`: the thread's accumulators of chunks `chunk` and `chunk` + 1, in order
  // (WgmmaAccumulators); in FP8 already divided by the scale.
  __device__ void store(const SubtileView<Element>& smem, int, int chunk,
                        const float (&values)[8]) const {
    smem.store_rounded(chunk, values);
  }
  // After the last subtile.
  __device__ void end() const {}
};

template <typename Element>
struct OutputTile<Element, true> {
  static constexpr int kStoredBytes = 16;                  // per row and lane in one store
  static constexpr int kStoredColumns = 2 * kStoredBytes;  // per row, by two lanes
  const Fp8Rows& output;
  int first_row, first_column;
  float scale, amax = 0;
  unsigned words[4];    // two of a row, two of the row 8 below; each word: 2 columns of 2 chunks
  unsigned columns[4];  // of the transpose, in SubtileView's layout

  __device__ OutputTile(const Fp8Rows& rows, int row, int column)
      : output(rows), scale(*rows.copy.scale) {
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
      amax = max_abs(max_abs(amax, low), high);
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
  // The four lanes that hold two rows transpose their words, so that each has 16 columns of one
  // row.
  __device__ void store_rows(int row_offset, int column_offset) {
    auto& w = words;
    exchange(w[0], w[1], 1), exchange(w[2], w[3], 1);
    exchange(w[0], w[2], 2), exchange(w[1], w[3], 2);
    const int row = first_row + row_offset, column = first_column + column_offset;
    const auto at = std::int64_t{row} * output.columns + column;
    // Low halves hold the first chunk, high halves the second.
    const auto bytes = make_uint4(__byte_perm(w[0], w[1], 0x5410), __byte_perm(w[2], w[3], 0x5410),
                                  __byte_perm(w[0], w[1], 0x7632), __byte_perm(w[2], w[3], 0x7632));
    if (row < output.rows && column < output.columns)
      *reinterpret_cast<uint4*>(static_cast<unsigned char*>(output.copy.values) + at) = bytes;
  }
  // Exchanges `b` of lanes without `bit` set with `a` of lanes with it.
  __device__ static void exchange(unsigned& a, unsigned& b, unsigned bit) {
    const bool upper = (threadIdx.x & bit) != 0;
    const unsigned received = __shfl_xor_sync(0xffffffff, upper ? a : b, bit);
    (upper ? a : b) = received;
  }
};

// Stores op(accumulator, row) for the 32 accumulators of one wgmma tile of a subtile; `row` is 0 or
// 1, the thread's first or second row.
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

// C's elements at a thread's accumulators of chunks `chunk` and `chunk` + 1; call load() with even
// chunks in ascending order.
template <typename Element, bool fp8 = is_transposed<Element>>
struct InputChunks {
  unsigned words[4];

  __device__ void load(const SubtileView<Element>& smem, int chunk) { smem.load(chunk, words); }
  __device__ float operator()(int, int i) const {
    return i % 2 == 0 ? low_of<Element>(words[i / 2]) : high_of<Element>(words[i / 2]);
  }
};

// e4m3: one load covers four chunks.
template <typename Element>
struct InputChunks<Element, true> {
  unsigned words[4];

  __device__ void load(const SubtileView<Element>& smem, int chunk) {
    if (chunk % 4 == 0) smem.load(chunk, words);
  }
  __device__ float operator()(int chunk, int i) const {
    const float2 column = from_e4m3_pair(words[chunk % 4 + i / 4] >> i % 2 * 16);
    return i / 2 % 2 == 0 ? column.x : column.y;
  }
};

// Stores op(accumulator, C's element, row), like store_each().
template <typename Element, typename Op>
__device__ void combine_with_c(OutputTile<Element>& output, const SubtileView<Element>& smem,
                               int subtile, const float* accumulators, Op op) {
  InputChunks<Element> input;
#pragma unroll
  for (int chunk = 0; chunk < kSubtileN / 8; chunk += 2) {
    input.load(smem, chunk);
    float d[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) d[i] = op(accumulators[4 * chunk + i], input(chunk, i), i / 2 % 2);
    output.store(smem, subtile, chunk, d);
  }
}

}  // namespace tg::cuda::hopper
