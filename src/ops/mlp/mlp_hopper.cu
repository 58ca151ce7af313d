// The MLP's wide products with the activation, or its gradient, in their epilogues: the activation
// is written once and read once, and the product before it never leaves the registers. With D of
// 512 or 768 an epilogue takes half as long as the product of a tile, under which it hides.
#include "ops/gemm/hopper/gemm_launch.cuh"
#include "ops/mlp/mlp_hopper.h"

namespace tg::cuda {

namespace {

using namespace hopper;

constexpr int kColumns = 192, kPanels = kColumns / kPanel;  // of a tile

// Where the signs of a thread's sums in a tile begin, a bit each; panels lie kGroup apart. Of the
// 32 of half a panel, which fill a word, each next number's is at the lower end.
static_assert(kPanelSums == 32);
__device__ std::int64_t tile_signs(const Place& place) {
  return std::int64_t{place.number} * kPanels * kGroup + threadIdx.x % kGroup;
}
__device__ unsigned& of_half(uint2& signs, int half) {
  return half == 0 ? signs.x : signs.y;
}

// sums → leaky_relu_squared(sums), rounded, and the sums' signs.
struct Activate {
  static constexpr int columns = kColumns;
  static constexpr bool n_major = false, reads_panel = false;
  float slope;
  uint2* signs;  // null: not kept

  struct Tile {
    float slope;
    uint2* kept;
    uint2 signs{};

    __device__ Tile(const Activate& activate, const Place& place)
        : slope(activate.slope),
          kept(activate.signs == nullptr ? nullptr : activate.signs + tile_signs(place)) {}

    __device__ float one(float sum, unsigned& half_signs) const {
      half_signs = __funnelshift_l(__float_as_uint(sum), half_signs, 1);
      const float u = sum > 0 ? sum : slope * sum;
      return u * u;
    }
    __device__ void prepare(TileSums<kColumns>&) const {}
    __device__ void finish(int, int half, const float* sums, const PanelRows& rows) {
#pragma unroll
      for (int g = 0; g < kPanel / 8; g += 2) {
        float activation[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) activation[i] = one(sums[4 * g + i], of_half(signs, half));
        rows.store_sums(g, activation);
      }
    }
    __device__ void leave(int panel) const {
      if (kept != nullptr) kept[panel * kGroup] = signs;
    }
  };
};

// sums → sums·2u·u', where u² is the activation. The root of that is |u|; where the product was
// negative, u' is the slope and 2u·u' = -2·|slope|·|u|.
struct Differentiate {
  static constexpr int columns = kColumns;
  static constexpr bool n_major = true, reads_panel = true;
  float slope;
  const uint2* signs;

  struct Tile {
    float slope;
    uint2 signs[kPanels];

    __device__ Tile(const Differentiate& differentiate, const Place& place)
        : slope(differentiate.slope) {
      const uint2* const kept = differentiate.signs + tile_signs(place);
#pragma unroll
      for (int p = 0; p < kPanels; ++p) signs[p] = kept[p * kGroup];
    }

    __device__ float one(float sum, float activation, unsigned& half_signs) const {
      float root;
      asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(activation));
      const float factor = static_cast<int>(half_signs) < 0 ? -2 * fabsf(slope) : 2.0f;
      half_signs <<= 1;
      return sum * (root * factor);
    }
    __device__ void prepare(TileSums<kColumns>&) const {}
    __device__ void finish(int panel, int half, const float* sums, const PanelRows& rows) {
      unsigned& half_signs = of_half(signs[panel], half);
#pragma unroll
      for (int g = 0; g < kPanel / 8; g += 2) {
        unsigned activation[4];
        rows.load(g, activation);
        float gradient[8];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const float low = low_of(activation[w]);
          const float high = high_of(activation[w]);
          gradient[2 * w] = one(sums[4 * g + 2 * w], low, half_signs);
          gradient[2 * w + 1] = one(sums[4 * g + 2 * w + 1], high, half_signs);
        }
        rows.store_sums(g, gradient);
      }
    }
    __device__ void leave(int) const {}
  };
};

}  // namespace

std::int64_t mlp_sign_bytes(const MlpShape& shape) {
  const auto tiles = tiles_of<Activate>(shape.rows, shape.hidden, shape.dim);
  return std::int64_t{tiles.count} * kCluster * kRows * kColumns / 8;
}

void mlp_up(const MlpShape& shape, const void* x, const void* up, float slope, void* activation,
            void* signs, Stream stream) {
  launch_product({.rows = shape.rows,
                  .columns = shape.hidden,
                  .depth = shape.dim,
                  .a = x,
                  .b = up,
                  .out = activation},
                 Activate{slope, static_cast<uint2*>(signs)}, "mlp_up", stream);
}

void mlp_down_backward(const MlpShape& shape, const void* dy, const void* down,
                       const void* activation, const void* signs, float slope, void* gradient,
                       Stream stream) {
  launch_product({.rows = shape.rows,
                  .columns = shape.hidden,
                  .depth = shape.dim,
                  .a = dy,
                  .b = down,
                  .in = activation,
                  .out = gradient},
                 Differentiate{slope, static_cast<const uint2*>(signs)}, "mlp_down_backward",
                 stream);
}

}  // namespace tg::cuda
