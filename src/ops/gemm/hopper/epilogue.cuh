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

// Writes a consumer thread's part of a tile of D.
template <typename Element, bool fp8 = is_transposed<Element>>
struct OutputTile {
  OutputTile() = default;
  explicit __device__ OutputTile(const Fp8Copy&) {}
  // `values`: the thread's accumulators of chunks `chunk` and `chunk` + 1, in order
  // (WgmmaAccumulators); in FP8 already divided by the scale.
  __device__ void store(const SubtileView<Element>& smem, int chunk,
                        const float (&values)[8]) const {
    smem.store_rounded(chunk, values);
  }
  // After the last subtile.
  __device__ void end() const {}
};

// FP8: rows and their transpose; raises amax of the copy, whose values are GemmProblem::d_rows.
template <typename Element>
struct OutputTile<Element, true> {
  const Fp8Copy& copy;
  float scale, amax = 0;
  unsigned rows[4], columns[4];  // of four chunks, in SubtileView's layouts

  explicit __device__ OutputTile(const Fp8Copy& copy) : copy(copy), scale(*copy.scale) {}

  __device__ void store(const SubtileView<Element>& smem, int chunk, const float (&values)[8]) {
#pragma unroll
    for (const float value : values) amax = max_abs(amax, value);
    const int half = chunk / 2 % 2;
    unsigned *const row = rows + 2 * half, *const column = columns + 2 * half;
    row[0] = fp8_quad<Element>(values[0], values[1], values[4], values[5]);
    row[1] = fp8_quad<Element>(values[2], values[3], values[6], values[7]);
    column[0] = __byte_perm(row[0], row[1], 0x5140);
    column[1] = __byte_perm(row[0], row[1], 0x7362);
    if (half == 0) return;
    smem.store(chunk - 2, columns);
    smem.store_rows(chunk - 2, rows);
  }
  __device__ void end() const {
    raise_amax(copy.amax, amax * scale, /*reads_first=*/false);
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
    output.store(smem, chunk, d);
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
    output.store(smem, chunk, d);
  }
}

}  // namespace tg::cuda::hopper
