// The MLP's wide GEMMs in FP8. The epilogues write nothing in 16 bits: of the activation and of its
// gradient they write the rows, for the next GEMM of the pass, and the transpose, for that of a
// weight's gradient. A factor that a tile's elements have in common is part of those that an
// element is multiplied by anyway.
#include "ops/gemm/hopper/fp8_tile.cuh"
#include "ops/mlp/fp8_mlp_hopper.h"
#include "ops/mlp/mlp_signs.cuh"

namespace tg::cuda {

namespace {

using namespace hopper;
using Fp8 = __nv_fp8_e4m3;

// Accumulators of wider tiles leave these epilogues too few registers.
constexpr int kBlockN = 128, kSubtiles = kBlockN / kSubtileN;

// D = leaky_relu_squared(A·Bᵀ), its rows, and the accumulators' signs.
struct Fp8ActivationEpilogue {
  using Element = Fp8;
  using Operand = Fp8;
  static constexpr int block_n = kBlockN;
  static constexpr bool n_major_b = false, reads_c = false;
  float slope;
  OperandScales scales;
  uint2* signs;
  Fp8Rows rows;

  struct Tile {
    float positive, negative;  // what an accumulator is multiplied by, of its sign
    uint2* sign_out;
    uint2 signs{};  // of the current subtile
    OutputTile<Fp8> output;

    __device__ Tile(const Fp8ActivationEpilogue& epilogue, const TileInfo& tile)
        : positive(epilogue.scales.product() * rsqrtf(*epilogue.rows.copy.scale)),
          negative(epilogue.slope * positive),
          sign_out(epilogue.signs + first_sign_index<kSubtiles>(tile)),
          output(epilogue.rows, tile.row, tile.column) {}

    __device__ void transform(Accumulators<kBlockN>&) const {}
    __device__ void store_subtile(int subtile, int mma, const float* accumulators,
                                  const SubtileView<Fp8>& smem) {
#pragma unroll
      for (int chunk = 0; chunk < kSubtileN / 8; chunk += 2) {
        float activation[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float x = accumulators[4 * chunk + i];
          push_sign(sign_word(signs, mma), x);
          const float u = x * (x > 0 ? positive : negative);
          activation[i] = u * u;
        }
        output.store(smem, subtile, chunk, activation);
      }
    }
    __device__ void end_subtile(int subtile) const {
      sign_out[subtile * kWarpgroupThreads] = signs;
      if (subtile == kSubtiles - 1) output.end();
    }
  };
};

// D = (A·Bᵀ) · du²/dx, and its rows, where C is the activation u² of x: see mlp_hopper.cu.
struct Fp8ActivationGradientEpilogue {
  using Element = Fp8;
  using Operand = Fp8;
  static constexpr int block_n = kBlockN;
  static constexpr bool n_major_b = false, reads_c = true;
  float slope;
  OperandScales scales;
  const float* activation_scale;
  const uint2* signs;
  Fp8Rows rows;

  struct Tile {
    float positive, negative;  // du²/dx / √C, and all scales
    uint2 signs[kSubtiles];
    OutputTile<Fp8> output;

    __device__ Tile(const Fp8ActivationGradientEpilogue& epilogue, const TileInfo& tile)
        : positive(2 * approximate_sqrt(*epilogue.activation_scale) * epilogue.scales.product() /
                   *epilogue.rows.copy.scale),
          negative(-fabsf(epilogue.slope) * positive),
          output(epilogue.rows, tile.row, tile.column) {
      const uint2* const sign_in = epilogue.signs + first_sign_index<kSubtiles>(tile);
#pragma unroll
      for (int s = 0; s < kSubtiles; ++s) signs[s] = sign_in[s * kWarpgroupThreads];
    }

    __device__ void transform(Accumulators<kBlockN>&) const {}
    __device__ void store_subtile(int subtile, int mma, const float* accumulators,
                                  const SubtileView<Fp8>& smem) {
      unsigned& subtile_signs = sign_word(signs[subtile], mma);
      unsigned activation[4];
#pragma unroll
      for (int chunk = 0; chunk < kSubtileN / 8; chunk += 2) {
        if (chunk % 4 == 0) smem.load(chunk, activation);
        float gradient[8];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const unsigned word = activation[(chunk + half) % 4];
          const float2 first = from_e4m3_pair(word), second = from_e4m3_pair(word >> 16);
          const float of_row[4] = {first.x, second.x, first.y, second.y};
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float factor = pop_sign(subtile_signs) ? negative : positive;
            gradient[4 * half + i] =
                accumulators[4 * (chunk + half) + i] * (approximate_sqrt(of_row[i]) * factor);
          }
        }
        output.store(smem, subtile, chunk, gradient);
      }
    }
    __device__ void end_subtile(int subtile) const {
      if (subtile == kSubtiles - 1) output.end();
    }
  };
};

}  // namespace

std::int64_t fp8_mlp_sign_bytes(const MlpShape& shape) {
  return sign_bytes<Fp8ActivationEpilogue>(shape);
}

void fp8_mlp_up(const MlpShape& shape, const void* x, const void* up, const Fp8Gemm& fp8,
                float slope, void* transposed, void* signs, Stream stream) {
  const GemmProblem problem{
      .m = shape.rows, .n = shape.hidden, .k = shape.dim, .a = x, .b = up, .d = transposed};
  launch_gemm(problem,
              Fp8ActivationEpilogue{slope,
                                    operand_scales(fp8),
                                    static_cast<uint2*>(signs),
                                    {fp8.copy, shape.rows, shape.hidden}},
              "fp8_mlp_up", stream);
}

void fp8_mlp_down_backward(const MlpShape& shape, const void* dy, const void* down,
                           const Fp8Gemm& fp8, const void* activation,
                           const float* activation_scale, const void* signs, float slope,
                           void* transposed, Stream stream) {
  const GemmProblem problem{.m = shape.rows,
                            .n = shape.hidden,
                            .k = shape.dim,
                            .a = dy,
                            .b = down,
                            .c = activation,
                            .d = transposed};
  launch_gemm(problem,
              Fp8ActivationGradientEpilogue{slope,
                                            operand_scales(fp8),
                                            activation_scale,
                                            static_cast<const uint2*>(signs),
                                            {fp8.copy, shape.rows, shape.hidden}},
              "fp8_mlp_down_backward", stream);
}

}  // namespace tg::cuda
