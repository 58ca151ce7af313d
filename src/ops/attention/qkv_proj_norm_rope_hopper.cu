// The projection to queries, keys and values with their norm, rotation and gain in its epilogue: a
// tile has whole heads, and a thread of it all pairs that are rotated together.
#include "ops/attention/head_vectors.cuh"
#include "ops/attention/qkv_proj_norm_rope_hopper.h"
#include "ops/gemm/hopper/gemm_launch.cuh"

namespace tg::cuda {

namespace {

using namespace hopper;

struct FinishOperands {
  HeadShape shape;
  const Number *cos, *sin;
  const float* q_gain;
  float* inverse_rms;
};

// `half_groups`: groups of 8 columns in half of the rotated part.
template <int head_dim, int half_groups>
struct FinishHeads {
  static constexpr int columns = 128;  // 192 with heads of 64 are no faster
  static constexpr bool n_major = false, reads_panel = false;
  static constexpr int heads = columns / head_dim;
  static constexpr int head_sums = head_dim / 2;  // of a thread, in half of a tile's rows
  FinishOperands in;

  // What turns a row, two neighbours in a word, as a thread has them in its sums.
  struct Angles {
    unsigned cos[half_groups], sin[half_groups];
  };

  struct Tile {
    const FinishOperands& in;
    int first_token, first_head, column;
    float gains[heads];

    __device__ Tile(const FinishHeads& finish, const Place& place)
        : in(finish.in), first_head(place.column / head_dim), column(threadIdx.x % 4 * 2) {
      const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % kGroupWarps;
      first_token = place.row + warp * 16 + lane / 4;
#pragma unroll
      for (int h = 0; h < heads; ++h) {
        const bool gained = first_head + h < in.shape.heads && in.q_gain != nullptr;
        gains[h] = gained ? nonzero_gain(in.q_gain[first_head + h]) : 1;
      }
    }

    __device__ Angles angles_of(int token) const {
      const auto position = static_cast<unsigned>(token) % static_cast<unsigned>(in.shape.seq_len);
      const auto at = position * (8 * half_groups) + column;
      Angles found;
#pragma unroll
      for (int j = 0; j < half_groups; ++j) {
        found.cos[j] = *reinterpret_cast<const unsigned*>(in.cos + at + 8 * j);
        found.sin[j] = *reinterpret_cast<const unsigned*>(in.sin + at + 8 * j);
      }
      return found;
    }

    // The heads of a token, all at once: `x` are sums 4·j and 4·j + 1 of columns 8·j + `column`
    // and the next.
    __device__ void turn(float* x, int token) const {
      const int turned_heads = in.shape.heads + in.shape.kv_heads;
      const auto angles = angles_of(token);
      float r[heads];
#pragma unroll
      for (int h = 0; h < heads; ++h) {
        const float* const head = x + h * head_sums;
        float squares = 0;
#pragma unroll
        for (int j = 0; j < head_sums; j += 4)
          squares += head[j] * head[j] + head[j + 1] * head[j + 1];
        r[h] = rsqrtf(warp_sum<4>(squares) * (1.0f / head_dim) + kNormEpsilon);
      }
#pragma unroll
      for (int h = 0; h < heads; ++h) {
        if (first_head + h >= turned_heads) break;
        if (column == 0 && token < in.shape.tokens)
          in.inverse_rms[std::int64_t{token} * turned_heads + first_head + h] = r[h];
        float* const head = x + h * head_sums;
#pragma unroll
        for (int j = 0; j < half_groups; ++j) {
          float *const first = head + 4 * j, *const second = first + 4 * half_groups;
          rotate(first[0], second[0], low_of(angles.cos[j]), low_of(angles.sin[j]));
          rotate(first[1], second[1], high_of(angles.cos[j]), high_of(angles.sin[j]));
        }
        const float scale = r[h] * gains[h];
#pragma unroll
        for (int j = 0; j < head_sums; j += 4) head[j] *= scale, head[j + 1] *= scale;
      }
    }
    __device__ static void rotate(float& first, float& second, float cos, float sin) {
      const float rotated = first * cos + second * sin;
      second = second * cos - first * sin;
      first = rotated;
    }

    __device__ void prepare(TileSums<columns>& sums) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
#pragma unroll
        for (int below = 0; below < 2; ++below)
          turn(sums.half[half].of + 2 * below, first_token + half * kHalfTile + 8 * below);
      }
    }
    __device__ void finish(int, int, const float* sums, const PanelRows& rows) const {
#pragma unroll
      for (int g = 0; g < kPanel / 8; g += 2) rows.store_sums(g, sums + 4 * g);
    }
    __device__ void leave(int) const {}
  };
};

}  // namespace

void project_heads(const HeadShape& shape, int dim, const void* x, const void* weight,
                   const void* cos, const void* sin, const float* q_gain, void* qkv,
                   float* inverse_rms, Stream stream) {
  const Product product{.rows = shape.tokens,
                        .columns = (shape.heads + 2 * shape.kv_heads) * shape.head_dim,
                        .depth = dim,
                        .a = x,
                        .b = weight,
                        .out = qkv};
  const FinishOperands operands{shape, static_cast<const Number*>(cos),
                                static_cast<const Number*>(sin), q_gain, inverse_rms};
  const auto launch = [&](auto head_dim, auto half_groups) {
    launch_product(product, FinishHeads<head_dim(), half_groups()>{operands}, "project_heads",
                   stream);
  };
  const auto with_half_groups = [&](auto half_groups) {
    if (shape.head_dim == 64)
      launch(std::integral_constant<int, 64>{}, half_groups);
    else
      launch(std::integral_constant<int, 128>{}, half_groups);
  };
  switch (shape.half_rope_dims) {
    case 8:
      return with_half_groups(std::integral_constant<int, 1>{});
    case 16:
      return with_half_groups(std::integral_constant<int, 2>{});
    case 32:
      return with_half_groups(std::integral_constant<int, 4>{});
    case 64:
      return launch(std::integral_constant<int, 128>{}, std::integral_constant<int, 8>{});
    default:
      throw std::runtime_error("project_heads: no kernel for such a rotation");
  }
}

}  // namespace tg::cuda
