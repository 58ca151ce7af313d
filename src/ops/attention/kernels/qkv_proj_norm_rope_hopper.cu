// QKV projection GEMM whose epilogue computes RMSNorm, RoPE and gain of q and k, and the additions
// to v. A tile holds whole heads, and a consumer thread holds both elements of every pair that RoPE
// rotates.
#include "ops/attention/kernels/head_vectors.cuh"
#include "ops/attention/kernels/qkv_proj_norm_rope_hopper.h"
#include "ops/attention/kernels/qkv_rope_angles.cuh"
#include "ops/gemm/hopper/epilogue.cuh"

namespace tg::cuda {

namespace {

using namespace hopper;

static_assert(kApartTokens % (kClusterSize * kBlockM) == 0);

template <typename Element>
struct NormRopeArgs {
  QkvShape shape;
  const Element *cos, *sin;
  const float* q_gain;
  HeadVectors embedding, first_v;
  const float* first_weight;
  RowScale row_scale;
  float* inverse_rms;  // row_scale/rms
};

// Angles: HalfSplitAngles or InterleavedAngles. With several tables a tile must hold one head.
template <typename T, typename TOperand, int head_dim, typename Angles>
struct NormRopeEpilogue {
  using Element = T;
  using Operand = TOperand;
  static constexpr int block_n = 128;  // 192 is no faster for heads of 64
  static constexpr bool n_major_b = false, reads_c = false;
  static constexpr int heads = block_n / head_dim;  // per tile
  static constexpr bool in_fp8 = sizeof(Operand) == 1;
  // A thread's accumulators per head and wgmma tile.
  static constexpr int head_accumulators = head_dim / 2;
  NormRopeArgs<T> args;
  OperandScales scales{};

  struct Tile {
    const NormRopeArgs<T>& args;
    ThreadRows tokens;
    int first_head;
    int column;  // of this thread, in each chunk of 8
    float gains[heads];
    float operand_scale;  // FP8 dequantization scale, else 1
    float first_weight;
    ThreadRowScales row_scales;
    Angles angles[kWgmmaTiles][2];  // loaded if the tile has a head of q or k

    // Loads everything except values, overlapping the last wgmma.
    __device__ Tile(const NormRopeEpilogue& epilogue, const TileInfo& tile)
        : args(epilogue.args),
          tokens(tile),
          first_head(tile.column / head_dim),
          column(threadIdx.x % 4 * 2),
          operand_scale(in_fp8 ? epilogue.scales.product() : 1),
          first_weight(args.first_v.data == nullptr ? 0 : *args.first_weight),
          row_scales(epilogue.args.row_scale, tokens) {
      if (first_head >= qk_heads()) return;
#pragma unroll
      for (int h = 0; h < heads; ++h) {
        const bool has_gain = first_head + h < args.shape.heads && args.q_gain != nullptr;
        gains[h] = has_gain ? nonzero_gain<T>(args.q_gain[first_head + h]) : 1;
      }
      tokens.for_each([&](int mma, int row, int token) {
        angles[mma][row] =
            Angles::load({args.cos, args.sin}, args.shape, token, first_head, column);
      });
    }

    __device__ int qk_heads() const {
      return args.shape.heads + args.shape.kv_heads;
    }
    // Returns a row's accumulators of head `h` of the tile: elements [4·j] and [4·j + 1] are
    // columns 8·j + `column` and 8·j + `column` + 1.
    __device__ static float* head_of(Accumulators<block_n>& x, int mma, int row, int h) {
      return x.mma[mma].values + 2 * row + h * head_accumulators;
    }
    __device__ float x_scale(int mma, int row) const {
      return operand_scale * row_scales.values[mma][row];
    }

    // Each step processes all rows: with one warp per scheduler, latency is hidden only by
    // independent instructions.
    __device__ void transform(Accumulators<block_n>& x) const {
      if (first_head < qk_heads()) norm_rope(x);
      if (first_head + heads > qk_heads()) finish_values(x);
    }

    // Leaves heads of v unchanged.
    __device__ void norm_rope(Accumulators<block_n>& x) const {
      float r[kWgmmaTiles][2][heads];
      tokens.for_each([&](int mma, int row, int) {
#pragma unroll
        for (int h = 0; h < heads; ++h) r[mma][row][h] = sum_of_squares(head_of(x, mma, row, h));
      });
      tokens.for_each([&](int mma, int row, int token) {
        const float scale = x_scale(mma, row), mean = scale * scale / args.shape.channels;
#pragma unroll
        for (int h = 0; h < heads; ++h) {
          auto& head_r = r[mma][row][h];
          head_r = rsqrtf(warp_sum<4>(head_r) * mean + kNormEpsilon);
          if (column == 0 && token < args.shape.tokens && first_head + h < qk_heads())
            args.inverse_rms[std::int64_t{token} * qk_heads() + first_head + h] =
                head_r * row_scales.values[mma][row];
        }
      });
      tokens.for_each([&](int mma, int row, int) {
#pragma unroll
        for (int h = 0; h < heads; ++h) {
          if (first_head + h >= qk_heads()) break;
          float* const head = head_of(x, mma, row, h);
          angles[mma][row].rotate(head);
          multiply(head, x_scale(mma, row) * r[mma][row][h] * gains[h]);
        }
      });
    }
    __device__ static float sum_of_squares(const float* head) {
      float squares = 0;
#pragma unroll
      for (int j = 0; j < head_accumulators; j += 4)
        squares += head[j] * head[j] + head[j + 1] * head[j + 1];
      return squares;
    }
    __device__ static void multiply(float* head, float scale) {
#pragma unroll
      for (int j = 0; j < head_accumulators; j += 4) head[j] *= scale, head[j + 1] *= scale;
    }

    // Leaves heads of q and k unchanged.
    __device__ void finish_values(Accumulators<block_n>& x) const {
#pragma unroll
      for (int h = 0; h < heads; ++h) {
        const int value_head = first_head + h - qk_heads();
        if (value_head < 0 || value_head >= args.shape.kv_heads) continue;
        if (in_fp8 || args.row_scale.values != nullptr) {
          tokens.for_each(
              [&](int mma, int row, int) { multiply(head_of(x, mma, row, h), x_scale(mma, row)); });
        }
        if (args.embedding.data != nullptr) add_values(x, h, value_head, args.embedding, 1);
        if (args.first_v.data != nullptr) add_values(x, h, value_head, args.first_v, first_weight);
      }
    }
    __device__ void add_values(Accumulators<block_n>& x, int h, int value_head,
                               const HeadVectors& values, float weight) const {
      tokens.for_each([&](int mma, int row, int token) {
        // Rows after the last token are not stored.
        const auto* const from = static_cast<const T*>(values.data) +
                                 min(token, args.shape.tokens - 1) * values.token_stride +
                                 value_head * values.head_stride + column;
        float* const head = head_of(x, mma, row, h);
#pragma unroll
        for (int j = 0; j < head_accumulators; j += 4) {
          const auto pair = *reinterpret_cast<const unsigned*>(from + 2 * j);
          head[j] += weight * low_of<T>(pair);
          head[j + 1] += weight * high_of<T>(pair);
        }
      });
    }

    __device__ void store_subtile(int, int, const float* accumulators,
                                  const SubtileView<T>& smem) const {
#pragma unroll
      for (int chunk = 0; chunk < kSubtileN / 8; chunk += 2)
        smem.store_rounded(chunk, accumulators + 4 * chunk);
    }
    __device__ void end_subtile(int) const {}
  };
};

template <typename T, typename Operand>
void launch(const GemmProblem& problem, const NormRopeArgs<T>& args, const OperandScales& scales,
            Stream stream) {
  const auto run = [&](auto head_dim, auto angles) {
    using Angles = typename decltype(angles)::type;
    launch_gemm(problem, NormRopeEpilogue<T, Operand, head_dim(), Angles>{args, scales},
                "qkv_proj_norm_rope", stream);
  };
  constexpr std::integral_constant<int, 64> of_64;
  constexpr std::integral_constant<int, 128> of_128;
  const auto with_half_chunks = [&](auto half_chunks) {
    constexpr std::type_identity<HalfSplitAngles<T, half_chunks()>> angles;
    args.shape.head_dim == 64 ? run(of_64, angles) : run(of_128, angles);
  };
  const auto& shape = args.shape;
  if (shape.interleaved) {
    if (shape.half_rope_dims == 24)
      return run(of_128, std::type_identity<InterleavedAngles<T, 6>>{});
    if (shape.half_rope_dims == 32)
      return run(of_128, std::type_identity<InterleavedAngles<T, 8>>{});
  } else {
    switch (shape.half_rope_dims) {
      case 8:
        return with_half_chunks(std::integral_constant<int, 1>{});
      case 16:
        return with_half_chunks(std::integral_constant<int, 2>{});
      case 32:
        return with_half_chunks(std::integral_constant<int, 4>{});
      case 64:
        return run(of_128, std::type_identity<HalfSplitAngles<T, 8>>{});
      default:
        break;
    }
  }
  throw std::runtime_error("qkv_proj_norm_rope: no kernel for these rope_dims");
}

}  // namespace

void qkv_proj_norm_rope(const QkvShape& shape, int dim, const void* x, const void* weight,
                        const Fp8Gemm& fp8, const QkNormRopeInputs& in, void* qkv,
                        float* inverse_rms, Dtype dtype, Stream stream) {
  const GemmProblem problem{.m = shape.tokens,
                            .n = (shape.heads + 2 * shape.kv_heads) * shape.head_dim,
                            .k = dim,
                            .a = x,
                            .b = weight,
                            .d = qkv,
                            .d_parts = shape.apart ? 3 : 1};
  dispatch_operand(fp8, dtype, [&](auto zero, auto operand) {
    using T = decltype(zero);
    const NormRopeArgs<T> args{shape,
                               static_cast<const T*>(in.cos),
                               static_cast<const T*>(in.sin),
                               in.q_gain,
                               in.embedding,
                               in.first_v,
                               in.first_weight,
                               {in.row_scale, shape.tokens},
                               inverse_rms};
    launch<T, decltype(operand)>(problem, args, operand_scales(fp8), stream);
  });
}

}  // namespace tg::cuda
