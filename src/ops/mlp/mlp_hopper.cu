// The MLP's wide GEMMs with the activation, or its gradient, in the epilogue: the activation is
// written once and read once, and x·upᵀ never leaves the registers. With D of 512 or 768 a tile's
// epilogue takes half as long as the other consumer's mainloop, which hides it.
#include "ops/gemm/hopper/fp8_tile.cuh"
#include "ops/gemm/hopper/gemm_launch.cuh"
#include "ops/gemm/hopper/row_scale.cuh"
#include "ops/mlp/mlp_hopper.h"

namespace tg::cuda {

namespace {

using namespace hopper;

constexpr int kBlockN = 192, kSubtiles = kBlockN / kSubtileN;

// Signs of x·upᵀ: a uint2 per thread and subtile, of which each wgmma tile fills a word, one bit
// for each of its 32 accumulators, the first in the highest bit.
static_assert(kSubtileAccumulators == 32);
// Index of a thread's uint2 of subtile 0; those of the next subtiles are kWarpgroupThreads apart.
__device__ std::int64_t first_sign_index(const TileInfo& tile) {
  return std::int64_t{tile.index} * kSubtiles * kWarpgroupThreads + threadIdx.x % kWarpgroupThreads;
}
__device__ unsigned& sign_word(uint2& signs, int mma) {
  return mma == 0 ? signs.x : signs.y;
}

// D = leaky_relu_squared(A·Bᵀ), and the accumulators' signs.
template <typename T, typename TOperand>
struct ActivationEpilogue {
  using Element = T;
  using Operand = TOperand;
  static constexpr int block_n = kBlockN;
  static constexpr bool n_major_b = false, reads_c = false;
  static constexpr bool scales_rows = sizeof(Operand) == 2;
  float slope;
  RowScale row_scale;
  uint2* signs;  // null: not written
  OperandScales scales{};
  Fp8Output copy{};  // of D, with FP8 operands

  struct Tile {
    float slope;
    ThreadRowScales row_scales;
    uint2* sign_out;
    uint2 signs{};  // of the current subtile
    Fp8Tile<Operand> copy;

    __device__ Tile(const ActivationEpilogue& epilogue, const TileInfo& tile)
        : slope(epilogue.slope),
          row_scales(epilogue.row_scale, tile.row),
          sign_out(epilogue.signs == nullptr ? nullptr : epilogue.signs + first_sign_index(tile)),
          copy(epilogue.copy, tile.row, tile.column) {}

    // Of the row_scale · x of a row. Shifts the sign bit of x into `bits` from below.
    __device__ float activate(float x, float row_scale, unsigned& bits) const {
      bits = __funnelshift_l(__float_as_uint(x), bits, 1);
      const float u = x * (x > 0 ? row_scale : slope * row_scale);
      return u * u;
    }
    __device__ void transform(Accumulators<kBlockN>&) const {}
    __device__ void store_subtile(int subtile, int mma, const float* accumulators,
                                  const SubtileView<T>& smem) {
#pragma unroll
      for (int chunk = 0; chunk < kSubtileN / 8; chunk += 2) {
        float activation[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float row_scale = scales_rows ? row_scales.of[mma][i / 2 % 2] : 1;
          activation[i] = activate(accumulators[4 * chunk + i], row_scale, sign_word(signs, mma));
        }
        copy.add(subtile, mma, chunk, smem.store_rounded(chunk, activation));
      }
    }
    __device__ void end_subtile(int subtile) const {
      if (sign_out != nullptr) sign_out[subtile * kWarpgroupThreads] = signs;
      if (subtile == kSubtiles - 1) copy.end();
    }
  };
};

// D = row_scale · (A·B) · du²/dx, B as it is or, of FP8 operands, its transpose, where C is the
// activation u² of x: du²/dx = 2u·u', |u| = √C, and where x was negative u' is the slope, so that
// 2u·u' = -2·|slope|·|u|.
template <typename T, typename TOperand>
struct ActivationGradientEpilogue {
  using Element = T;
  using Operand = TOperand;
  static constexpr int block_n = kBlockN;
  static constexpr bool n_major_b = sizeof(Operand) == 2, reads_c = true;
  float slope;
  RowScale row_scale;
  const uint2* signs;
  OperandScales scales{};
  Fp8Output copy{};

  struct Tile {
    float slope;
    ThreadRowScales row_scales;
    uint2 signs[kSubtiles];
    Fp8Tile<Operand> copy;

    __device__ Tile(const ActivationGradientEpilogue& epilogue, const TileInfo& tile)
        : slope(epilogue.slope),
          row_scales(epilogue.row_scale, tile.row),
          copy(epilogue.copy, tile.row, tile.column) {
      const uint2* const sign_in = epilogue.signs + first_sign_index(tile);
#pragma unroll
      for (int s = 0; s < kSubtiles; ++s) signs[s] = sign_in[s * kWarpgroupThreads];
    }

    // Shifts x's sign bit out of `bits`.
    __device__ float differentiate(float d_activation, float activation, float row_scale,
                                   unsigned& bits) const {
      float abs_u;
      asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(abs_u) : "f"(activation));
      const float factor =
          static_cast<int>(bits) < 0 ? -2 * fabsf(slope) * row_scale : 2 * row_scale;
      bits <<= 1;
      return d_activation * (abs_u * factor);
    }
    __device__ void transform(Accumulators<kBlockN>&) const {}
    __device__ void store_subtile(int subtile, int mma, const float* accumulators,
                                  const SubtileView<T>& smem) {
      unsigned& subtile_signs = sign_word(signs[subtile], mma);
#pragma unroll
      for (int chunk = 0; chunk < kSubtileN / 8; chunk += 2) {
        unsigned activation[4];
        smem.load(chunk, activation);
        float gradient[8];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const float low = low_of<T>(activation[w]);
          const float high = high_of<T>(activation[w]);
          const float* const x = accumulators + 4 * chunk + 2 * w;
          const float row_scale = row_scales.of[mma][w % 2];
          gradient[2 * w] = differentiate(x[0], low, row_scale, subtile_signs);
          gradient[2 * w + 1] = differentiate(x[1], high, row_scale, subtile_signs);
        }
        copy.add(subtile, mma, chunk, smem.store_rounded(chunk, gradient));
      }
    }
    __device__ void end_subtile(int subtile) const {
      if (subtile == kSubtiles - 1) copy.end();
    }
  };
};

}  // namespace

std::int64_t mlp_sign_bytes(const MlpShape& shape) {
  const auto grid = make_tile_grid<ActivationEpilogue<__nv_bfloat16, __nv_bfloat16>>(
      shape.rows, shape.hidden, shape.dim);
  return std::int64_t{grid.count()} * kClusterSize * kBlockM * kBlockN / 8;
}

void mlp_up(const MlpShape& shape, const void* x, const void* up, const Fp8Gemm& fp8,
            const float* row_scale, float slope, void* activation, void* signs, Dtype dtype,
            Stream stream) {
  const GemmProblem problem{
      .m = shape.rows, .n = shape.hidden, .k = shape.dim, .a = x, .b = up, .d = activation};
  dispatch_operand(fp8, dtype, [&](auto zero, auto operand) {
    const ActivationEpilogue<decltype(zero), decltype(operand)> epilogue{slope,
                                                                         {row_scale, shape.rows},
                                                                         static_cast<uint2*>(signs),
                                                                         operand_scales(fp8),
                                                                         fp8_output(fp8, problem)};
    launch_gemm(problem, epilogue, "mlp_up", stream);
  });
}

void mlp_down_backward(const MlpShape& shape, const void* dy, const void* down, const Fp8Gemm& fp8,
                       const float* row_scale, const void* activation, const void* signs,
                       float slope, void* gradient, Dtype dtype, Stream stream) {
  const GemmProblem problem{.m = shape.rows,
                            .n = shape.hidden,
                            .k = shape.dim,
                            .a = dy,
                            .b = down,
                            .c = activation,
                            .d = gradient};
  dispatch_operand(fp8, dtype, [&](auto zero, auto operand) {
    const ActivationGradientEpilogue<decltype(zero), decltype(operand)> epilogue{
        slope,
        {row_scale, shape.rows},
        static_cast<const uint2*>(signs),
        operand_scales(fp8),
        fp8_output(fp8, problem)};
    launch_gemm(problem, epilogue, "mlp_down_backward", stream);
  });
}

}  // namespace tg::cuda
