#pragma once
// Epilogues of the MLP's wide GEMMs that compute the activation or its gradient: the activation is
// written once and read once, and x·upᵀ never leaves the registers. In FP8 a tile writes both rows,
// for the next GEMM, and their transpose, for a weight-gradient GEMM.
#include "ops/gemm/hopper/epilogue.cuh"
#include "ops/mlp/mlp_signs.cuh"

namespace tg::cuda::hopper {

// The two leave out d_rows, which only FP8 has.
inline GemmProblem mlp_up_problem(const MlpShape& shape, const void* x, const void* up, void* d) {
  return {.m = shape.rows, .n = shape.hidden, .k = shape.dim, .a = x, .b = up, .d = d};
}
inline GemmProblem mlp_down_backward_problem(const MlpShape& shape, const void* dy,
                                             const void* down, const void* activation, void* d) {
  return {.m = shape.rows,
          .n = shape.hidden,
          .k = shape.dim,
          .a = dy,
          .b = down,
          .c = activation,
          .d = d};
}

// Factors of the accumulators, by sign, and the writer of D. 16-bit: each row has a scale.
template <typename T>
struct MlpScaling {
  RowScale row_scale;

  struct Factors {
    float slope;
    ThreadRowScales row_scales;

    __device__ float activation_factor(bool positive, int mma, int row) const {
      const float scale = row_scales.values[mma][row];
      return positive ? scale : slope * scale;
    }
    __device__ float gradient_factor(bool negative, int mma, int row) const {
      const float scale = row_scales.values[mma][row];
      return negative ? -2 * fabsf(slope) * scale : 2 * scale;
    }
  };
  __device__ Factors activation_factors(float slope, const TileInfo& tile) const {
    return {slope, {row_scale, ThreadRows(tile)}};
  }
  __device__ Factors gradient_factors(float slope, const TileInfo& tile) const {
    return {slope, {row_scale, ThreadRows(tile)}};
  }
  __device__ OutputTile<T> output() const { return {}; }
};

// FP8: the factors include the scales of the operands, the output and, for the gradient, the
// activation.
template <>
struct MlpScaling<__nv_fp8_e4m3> {
  OperandScales operands;
  const float* activation;  // scale of the activation; gradient only
  Fp8Copy copy;

  struct Factors {
    float positive, negative;

    __device__ float activation_factor(bool is_positive, int, int) const {
      return is_positive ? positive : negative;
    }
    __device__ float gradient_factor(bool is_negative, int, int) const {
      return is_negative ? negative : positive;
    }
  };
  __device__ Factors activation_factors(float slope, const TileInfo&) const {
    const float positive = operands.product() * rsqrtf(*copy.scale);
    return {positive, slope * positive};
  }
  __device__ Factors gradient_factors(float slope, const TileInfo&) const {
    const float positive = 2 * approximate_sqrt(*activation) * operands.product() / *copy.scale;
    return {positive, -fabsf(slope) * positive};
  }
  __device__ OutputTile<__nv_fp8_e4m3> output() const { return OutputTile<__nv_fp8_e4m3>(copy); }
};

// With D of 512 or 768 a tile's epilogue takes half as long as the other consumer's mainloop, which
// hides it.
constexpr int kMlpBlockN = 192;
constexpr int kMlpSubtiles = kMlpBlockN / kSubtileN;

// Computes D = leaky_relu_squared(A·Bᵀ), and the accumulators' signs.
template <typename T>
struct ActivationEpilogue {
  using Element = T;
  using Operand = T;
  static constexpr int block_n = kMlpBlockN;
  static constexpr bool n_major_b = false, reads_c = false;
  float slope;
  MlpScaling<T> scaling;
  uint2* signs;  // null: not written

  struct Tile {
    typename MlpScaling<T>::Factors factors;
    OutputTile<T> output;
    uint2* sign_out;
    uint2 signs{};  // of the current subtile

    __device__ Tile(const ActivationEpilogue& epilogue, const TileInfo& tile)
        : factors(epilogue.scaling.activation_factors(epilogue.slope, tile)),
          output(epilogue.scaling.output()),
          sign_out(epilogue.signs == nullptr
                       ? nullptr
                       : epilogue.signs + first_sign_index<kMlpSubtiles>(tile)) {}

    __device__ void store_subtile(int subtile, int mma, const float* accumulators,
                                  const SubtileView<T>& smem) {
      store_each(output, smem, subtile, accumulators, [&](float x, int row) {
        push_sign(sign_word(signs, mma), x);
        const float u = x * factors.activation_factor(x > 0, mma, row);
        return u * u;
      });
    }
    __device__ void end_subtile(int subtile) const {
      if (sign_out != nullptr) sign_out[subtile * kWarpgroupThreads] = signs;
      if (subtile == kMlpSubtiles - 1) output.end();
    }
  };
};

// Computes D = (A·B) · du²/dx, where C is the activation u² of x: du²/dx = 2u·u', |u| = √C; if x
// was negative, u' is the slope and 2u·u' = -2·|slope|·|u|. B is [k, n], in FP8 [n, k].
template <typename T>
struct ActivationGradientEpilogue {
  using Element = T;
  using Operand = T;
  static constexpr int block_n = kMlpBlockN;
  static constexpr bool n_major_b = !is_transposed<T>, reads_c = true;
  float slope;
  MlpScaling<T> scaling;
  const uint2* signs;

  struct Tile {
    typename MlpScaling<T>::Factors factors;
    OutputTile<T> output;
    uint2 signs[kMlpSubtiles];

    __device__ Tile(const ActivationGradientEpilogue& epilogue, const TileInfo& tile)
        : factors(epilogue.scaling.gradient_factors(epilogue.slope, tile)),
          output(epilogue.scaling.output()) {
      const uint2* const sign_in = epilogue.signs + first_sign_index<kMlpSubtiles>(tile);
#pragma unroll
      for (int s = 0; s < kMlpSubtiles; ++s) signs[s] = sign_in[s * kWarpgroupThreads];
    }

    __device__ void store_subtile(int subtile, int mma, const float* accumulators,
                                  const SubtileView<T>& smem) {
      unsigned& subtile_signs = sign_word(signs[subtile], mma);
      combine_with_c(
          output, smem, subtile, accumulators, [&](float d_activation, float activation, int row) {
            const float factor = factors.gradient_factor(pop_sign(subtile_signs), mma, row);
            return d_activation * (approximate_sqrt(activation) * factor);
          });
    }
    __device__ void end_subtile(int subtile) const {
      if (subtile == kMlpSubtiles - 1) output.end();
    }
  };
};

}  // namespace tg::cuda::hopper
