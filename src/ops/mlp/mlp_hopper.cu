// The MLP's wide GEMMs with the activation, or its gradient, in the epilogue: the activation is
// written once and read once, and x·upᵀ never leaves the registers. With D of 512 or 768 a tile's
// epilogue takes half as long as the other consumer's mainloop, which hides it.
#include "ops/gemm/hopper/combine_with_c.cuh"
#include "ops/gemm/hopper/row_scale.cuh"
#include "ops/mlp/mlp_hopper.h"
#include "ops/mlp/mlp_signs.cuh"

namespace tg::cuda {

namespace {

using namespace hopper;

constexpr int kBlockN = 192, kSubtiles = kBlockN / kSubtileN;

// D = leaky_relu_squared(A·Bᵀ), and the accumulators' signs.
template <typename T>
struct ActivationEpilogue {
  using Element = T;
  using Operand = T;
  static constexpr int block_n = kBlockN;
  static constexpr bool n_major_b = false, reads_c = false;
  float slope;
  RowScale row_scale;
  uint2* signs;  // null: not written

  struct Tile {
    float slope;
    ThreadRowScales row_scales;
    uint2* sign_out;
    uint2 signs{};  // of the current subtile

    __device__ Tile(const ActivationEpilogue& epilogue, const TileInfo& tile)
        : slope(epilogue.slope),
          row_scales(epilogue.row_scale, ThreadRows(tile)),
          sign_out(epilogue.signs == nullptr ? nullptr
                                             : epilogue.signs + first_sign_index<kSubtiles>(tile)) {
    }

    // Of the row_scale · x of a row.
    __device__ float activate(float x, float row_scale, unsigned& bits) const {
      push_sign(bits, x);
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
        for (int i = 0; i < 8; ++i)
          activation[i] = activate(accumulators[4 * chunk + i], row_scales.of[mma][i / 2 % 2],
                                   sign_word(signs, mma));
        smem.store_rounded(chunk, activation);
      }
    }
    __device__ void end_subtile(int subtile) const {
      if (sign_out != nullptr) sign_out[subtile * kWarpgroupThreads] = signs;
    }
  };
};

// D = row_scale · (A·B) · du²/dx, where C is the activation u² of x: du²/dx = 2u·u', |u| = √C, and
// where x was negative u' is the slope, so that 2u·u' = -2·|slope|·|u|.
template <typename T>
struct ActivationGradientEpilogue {
  using Element = T;
  using Operand = T;
  static constexpr int block_n = kBlockN;
  static constexpr bool n_major_b = true, reads_c = true;
  float slope;
  RowScale row_scale;
  const uint2* signs;

  struct Tile {
    float slope;
    ThreadRowScales row_scales;
    uint2 signs[kSubtiles];

    __device__ Tile(const ActivationGradientEpilogue& epilogue, const TileInfo& tile)
        : slope(epilogue.slope), row_scales(epilogue.row_scale, ThreadRows(tile)) {
      const uint2* const sign_in = epilogue.signs + first_sign_index<kSubtiles>(tile);
#pragma unroll
      for (int s = 0; s < kSubtiles; ++s) signs[s] = sign_in[s * kWarpgroupThreads];
    }

    __device__ float differentiate(float d_activation, float activation, float row_scale,
                                   unsigned& bits) const {
      const float factor = pop_sign(bits) ? -2 * fabsf(slope) * row_scale : 2 * row_scale;
      return d_activation * (approximate_sqrt(activation) * factor);
    }
    __device__ void transform(Accumulators<kBlockN>&) const {}
    __device__ void store_subtile(int subtile, int mma, const float* accumulators,
                                  const SubtileView<T>& smem) {
      unsigned& subtile_signs = sign_word(signs[subtile], mma);
      combine_with_c(smem, accumulators, [&](float d_activation, float activation, int row) {
        return differentiate(d_activation, activation, row_scales.of[mma][row], subtile_signs);
      });
    }
    __device__ void end_subtile(int) const {}
  };
};

}  // namespace

std::int64_t mlp_sign_bytes(const MlpShape& shape) {
  return sign_bytes<ActivationEpilogue<__nv_bfloat16>>(shape);
}

void mlp_up(const MlpShape& shape, const void* x, const void* up, const float* row_scale,
            float slope, void* activation, void* signs, Dtype dtype, Stream stream) {
  const GemmProblem problem{
      .m = shape.rows, .n = shape.hidden, .k = shape.dim, .a = x, .b = up, .d = activation};
  dispatch_half(dtype, [&](auto zero) {
    const ActivationEpilogue<decltype(zero)> epilogue{
        slope, {row_scale, shape.rows}, static_cast<uint2*>(signs)};
    launch_gemm(problem, epilogue, "mlp_up", stream);
  });
}

void mlp_down_backward(const MlpShape& shape, const void* dy, const void* down,
                       const float* row_scale, const void* activation, const void* signs,
                       float slope, void* gradient, Dtype dtype, Stream stream) {
  const GemmProblem problem{.m = shape.rows,
                            .n = shape.hidden,
                            .k = shape.dim,
                            .a = dy,
                            .b = down,
                            .c = activation,
                            .d = gradient};
  dispatch_half(dtype, [&](auto zero) {
    const ActivationGradientEpilogue<decltype(zero)> epilogue{
        slope, {row_scale, shape.rows}, static_cast<const uint2*>(signs)};
    launch_gemm(problem, epilogue, "mlp_down_backward", stream);
  });
}

}  // namespace tg::cuda
