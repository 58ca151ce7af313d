// Dgrad GEMM of a projection, with row sums of x·dx in the epilogue.
#include "ops/gemm/hopper/gemm_launch.cuh"
#include "ops/kernels.cuh"
#include "ops/norm/linear_residual_norm_hopper.h"

namespace tg::cuda {

namespace {

using namespace hopper;

// Computes D = A·B, and Σ C·D over each row of a subtile.
template <int tile_columns>
struct DotEpilogue {
  using Element = __nv_bfloat16;
  using Operand = __nv_bfloat16;
  static constexpr int block_n = tile_columns;
  static constexpr bool n_major_b = true, reads_c = true;
  float* dots;  // [parts, rows]
  int rows, parts;

  struct Tile {
    const DotEpilogue& epilogue;
    ThreadRows thread_rows;
    int first_part;
    float sums[kWgmmaTiles][2];  // of the current subtile

    __device__ Tile(const DotEpilogue& gemm_epilogue, const TileInfo& tile)
        : epilogue(gemm_epilogue), thread_rows(tile), first_part(tile.column / kSubtileN) {}

    __device__ void store_subtile(int, int mma, const float* accumulators,
                                  const SubtileView<Element>& smem) {
      float row_sums[2] = {};
#pragma unroll
      for (int chunk = 0; chunk < kSubtileN / 8; chunk += 2) {
        unsigned c[4], d[4];
        smem.load(chunk, c);
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const float* const pair = accumulators + 4 * chunk + 2 * w;
          d[w] = rounded_pair<Element>(pair[0], pair[1]);
          float& sum = row_sums[w % 2];
          sum = fmaf(low_of<Element>(c[w]), low_of<Element>(d[w]), sum);
          sum = fmaf(high_of<Element>(c[w]), high_of<Element>(d[w]), sum);
        }
        smem.store(chunk, d);
      }
      sums[mma][0] = row_sums[0], sums[mma][1] = row_sums[1];
    }
    __device__ void end_subtile(int subtile) const {
      const int part = first_part + subtile;
      thread_rows.for_each_sum(sums, epilogue.rows, [&](int row, float sum) {
        if (part < epilogue.parts) epilogue.dots[std::int64_t{part} * epilogue.rows + row] = sum;
      });
    }
  };
};

}  // namespace

void input_gradient_with_dots(const InputGradientShape& shape, const void* dy, const void* weight,
                              const void* x, void* dx, float* dots, Stream stream) {
  const GemmProblem problem{
      .m = shape.rows, .n = shape.in, .k = shape.out, .a = dy, .b = weight, .c = x, .d = dx};
  dispatch_tile_columns(shape.in, [&](auto columns) {
    const DotEpilogue<columns()> epilogue{dots, shape.rows, shape.in / kSubtileN};
    launch_gemm(problem, epilogue, "input_gradient_with_dots", stream);
  });
}

}  // namespace tg::cuda
