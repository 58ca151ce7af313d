// The head's GEMM with softcap, exponential and row sums in the epilogue. With D = 768 a tile's
// epilogue takes less than half as long as the other consumer's mainloop, which hides it.
#include <cmath>

#include "ops/gemm/hopper/epilogue.cuh"
#include "ops/loss/linear_cross_entropy_hopper.h"
#include "ops/loss/softcap_row.cuh"

namespace tg::cuda {

namespace {

using namespace hopper;
using T = __nv_bfloat16;

// With e4m3 operands the epilogue writes two outputs; a narrower tile leaves registers for that.
template <typename Operand>
constexpr int kBlockN = sizeof(Operand) == 1 ? 128 : 192;

// Computes D = e^(s−cap)·(1 − tanh²)/4, with s the softcapped accumulators z, and partial_sums
// [tiles along N, rows], the sums of e^(s−cap) over a tile's columns. D is 0 in columns from
// `vocab` on, in rows beyond the last, and at each row's first target: for a target with p close to
// 1, 1 − p would be lost to cancellation. Each masked element adds e^(−2·cap) to its sum, which
// finish_rows() subtracts. In FP8, both outputs are divided by D's scale, and D is in e5m2:
// the range of e^s matters more than a mantissa bit.
template <typename TOperand>
struct SoftmaxGradientEpilogue {
  static constexpr bool in_fp8 = sizeof(TOperand) == 1;
  using Element = std::conditional_t<in_fp8, __nv_fp8_e5m2, T>;
  using Operand = TOperand;
  static constexpr int block_n = kBlockN<TOperand>;
  static constexpr bool n_major_b = false, reads_c = false;
  Softcap softcap;
  int rows, vocab;
  const std::int64_t* targets;
  int target_count;
  float* partial_sums;
  OperandScales scales{};
  Fp8Copy copy{};

  __device__ auto tile_softcap() const {
    if constexpr (in_fp8)
      return ScaledSoftcap(softcap, scales.product(), *copy.scale);
    else
      return softcap;
  }

  struct Tile {
    const SoftmaxGradientEpilogue& gemm_epilogue;
    ThreadRows rows;
    int tile_n;
    using Columns = ThreadColumns<Element>;
    // Number of vocabulary columns in the tile, and each row's target column, both relative to this
    // thread's first column.
    int valid, targets[kWgmmaTiles][2];
    decltype(std::declval<SoftmaxGradientEpilogue>().tile_softcap()) softcap;
    OutputTile<Element> output;
    float sums[kWgmmaTiles][2] = {};

    __device__ Tile(const SoftmaxGradientEpilogue& epilogue, const TileInfo& tile)
        : gemm_epilogue(epilogue),
          rows(tile),
          tile_n(tile.column / block_n),
          valid(epilogue.vocab - tile.column - Columns::first()),
          softcap(epilogue.tile_softcap()),
          output(epilogue.copy) {
      rows.for_each([&](int mma, int half, int row) {
        const auto target =
            epilogue.targets[std::int64_t{min(row, epilogue.rows - 1)} * epilogue.target_count];
        targets[mma][half] = static_cast<int>(target) - epilogue.vocab + valid;
      });
    }

    // Masks logits with −∞ in columns beyond the vocabulary, at the rows' targets and in rows
    // beyond the last: this gives e^(−2·cap) in the sum, and a gradient of 0. Few tiles need it.
    __device__ void transform(Accumulators<block_n>& accumulators) const {
      bool masks = valid < block_n;
      rows.for_each([&](int mma, int half, int row) {
        const unsigned target = targets[mma][half];
        // Only one of a row's threads holds its target.
        masks |= row >= gemm_epilogue.rows || (target < block_n && Columns::holds(target));
      });
      if (!masks) return;
#pragma unroll
      for (int column = 0; column < block_n; ++column) {
        if (!Columns::holds(column)) continue;
        // No run-time indexing, which would move the accumulators to local memory.
        rows.for_each([&](int mma, int half, int row) {
          if (column >= valid || column == targets[mma][half] || row >= gemm_epilogue.rows)
            accumulators.mma[mma].values[Columns::accumulator(column) + 2 * half] = -INFINITY;
        });
      }
    }

    __device__ void store_subtile(int subtile, int mma, const float* accumulators,
                                  const SubtileView<Element>& smem) {
      store_each(output, smem, subtile, accumulators, [&](float logit, int row) {
        float weight, slope;
        softcap_weight(logit, softcap, weight, slope);
        sums[mma][row] += weight;
        return weight * slope;
      });
    }
    __device__ void end_subtile(int subtile) const {
      if (subtile != block_n / kSubtileN - 1) return;
      output.end();
      rows.for_each_sum(sums, gemm_epilogue.rows, [&](int row, float sum) {
        gemm_epilogue.partial_sums[std::int64_t{tile_n} * gemm_epilogue.rows + row] = sum;
      });
    }
  };
};

}  // namespace

void linear_softmax_gradient(const LinearCrossEntropy& args, void* transposed, float* sums,
                             Stream stream) {
  if (args.rows == 0) return;
  const bool in_fp8 = args.fp8.scale_a != nullptr;
  const GemmProblem problem{.m = args.rows,
                            .n = args.width,
                            .k = args.dim,
                            .a = args.gemm_x,
                            .b = args.gemm_weight,
                            .d = in_fp8 ? transposed : args.unnormalised,
                            .d_rows = args.fp8.copy.values};
  const auto run = [&](auto operand) {
    const SoftmaxGradientEpilogue<decltype(operand)> epilogue{
        Softcap(args.softcap),    args.rows,    args.vocab, args.targets, args.target_count, sums,
        operand_scales(args.fp8), args.fp8.copy};
    launch_gemm(problem, epilogue, "linear_softmax_gradient", stream);
  };
  if (in_fp8)
    run(__nv_fp8_e4m3{});
  else
    run(T{});
}

SoftmaxSums linear_softmax_sums(int width, bool in_fp8) {
  const int block_n = in_fp8 ? kBlockN<__nv_fp8_e4m3> : kBlockN<T>;
  const int tiles = (width + block_n - 1) / block_n;
  return {tiles, tiles * block_n};
}

}  // namespace tg::cuda
