// Output projection of a branch with the residual add and the rows' sums of squares in the
// epilogue: the branch is not materialized, and the following norm needs no pass (CODA, arXiv
// 2605.19269).
#include "ops/gemm/hopper/epilogue.cuh"
#include "ops/kernels.cuh"
#include "ops/norm/linear_residual_norm_hopper.h"

namespace tg::cuda {

namespace {

using namespace hopper;

// Computes D = A·Bᵀ + C, and Σ D² over each row of a tile.
template <int tile_columns>
struct ResidualEpilogue {
  using Element = __nv_bfloat16;
  using Operand = __nv_bfloat16;
  static constexpr int block_n = tile_columns;
  static constexpr bool n_major_b = false, reads_c = true;
  float* squares;  // [rows, parts]
  int rows, parts;

  struct Tile {
    const ResidualEpilogue& epilogue;
    ThreadRows thread_rows;
    int part;
    float sums[kWgmmaTiles][2] = {};

    __device__ Tile(const ResidualEpilogue& gemm_epilogue, const TileInfo& tile)
        : epilogue(gemm_epilogue), thread_rows(tile), part(tile.column / block_n) {}

    __device__ void store_subtile(int subtile, int mma, const float* accumulators,
                                  const SubtileView<Element>& smem) {
      OutputTile<Element> output;
      combine_with_c(output, smem, subtile, accumulators, [&](float branch, float x, int row) {
        const float sum = branch + x;
        sums[mma][row] = fmaf(sum, sum, sums[mma][row]);
        return sum;
      });
    }
    __device__ void end_subtile(int subtile) const {
      if (subtile != block_n / kSubtileN - 1) return;
      thread_rows.for_each_sum(sums, epilogue.rows, [&](int row, float sum) {
        epilogue.squares[std::int64_t{row} * epilogue.parts + part] = sum;
      });
    }
  };
};

constexpr int kScaleThreads = 256;

__global__ void __launch_bounds__(kScaleThreads)
    row_scale_kernel(LinearResidualShape shape, const float* squares, int parts, float* row_scale) {
  const int row = static_cast<int>(blockIdx.x * kScaleThreads + threadIdx.x);
  if (row >= shape.rows) return;
  float sum = 0;
  for (int part = 0; part < parts; ++part) sum += squares[std::int64_t{row} * parts + part];
  row_scale[row] =
      shape.norm_scale * rsqrtf(sum / static_cast<float>(shape.channels) + kNormEpsilon);
}

}  // namespace

void linear_residual_norm(const LinearResidualShape& shape, const void* in, const void* weight,
                          const void* x, void* residual, float* row_scale,
                          const Workspace& workspace, Stream stream) {
  if (shape.rows == 0) return;
  const GemmProblem problem{.m = shape.rows,
                            .n = shape.width,
                            .k = shape.in_width,
                            .a = in,
                            .b = weight,
                            .c = x,
                            .d = residual};
  const int tile = tile_columns(shape.width), parts = (shape.width + tile - 1) / tile;
  float* const squares = workspace(std::int64_t{shape.rows} * parts);
  dispatch_tile_columns(shape.width, [&](auto columns) {
    launch_gemm(problem, ResidualEpilogue<columns()>{squares, shape.rows, parts},
                "linear_residual_norm", stream);
  });
  row_scale_kernel<<<(shape.rows + kScaleThreads - 1) / kScaleThreads, kScaleThreads, 0, stream>>>(
      shape, squares, parts, row_scale);
  check_launch("linear_residual_norm: row_scale");
}

}  // namespace tg::cuda
