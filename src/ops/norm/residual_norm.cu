// Fused residual adds, mix and RMSNorm: each tensor of the formula (ops/norm/residual_norm.h),
// including x', is read or written once, and a row stays in registers in between. Memory-bound.
#include "ops/gemm/fp8.cuh"
#include "ops/norm/residual_rows.cuh"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

namespace {

// A thread's parameters for one chunk. Reloaded for every row from L1, since they would not fit in
// registers.
struct Parameters {
  Pack8<float> sum_blend, skip_weight, mix0, mix1;
};
__device__ inline Parameters load_parameters(const ResidualNormTerms& terms, int width,
                                             int column) {
  const bool mix_is_vector = terms.mix_is_vector;
  const float* mix1 = terms.mix == nullptr ? nullptr : terms.mix + (mix_is_vector ? width : 1);
  return {load_parameter(terms.sum_blend, true, 1, column),
          load_parameter(terms.skip_weight, true, 0, column),
          load_parameter(terms.mix, mix_is_vector, 1, column),
          load_parameter(mix1, mix_is_vector, 0, column)};
}

struct ResidualSums {
  float sum, total, residual;  // x + branch; plus the skip; x'
};
// Explicit fmaf gives the same rounding wherever this is inlined, so that backward recomputes
// forward's x' bit for bit.
template <bool blend>
__device__ inline ResidualSums residual_sums(float x, float branch, float skip, float x0,
                                             const Parameters& p, int i) {
  const float sum = x + branch;
  const float total = fmaf(p.skip_weight[i], skip, blend ? p.sum_blend[i] * sum : sum);
  return {sum, total, fmaf(p.mix0[i], total, p.mix1[i] * x0)};
}

struct ForwardArgs {
  ResidualNormTerms terms;
  ResidualNormRows rows;
  void *sum, *residual;
  NormedRows normed;
};

constexpr int kForwardWarps = 8;

// `blend`: terms.sum_blend is not null.
template <typename Layout, bool copies, bool blend>
__global__ void __launch_bounds__(kForwardWarps* kWarp)
    forward_kernel(const __grid_constant__ ForwardArgs args) {
  using T = typename Layout::T;
  Fp8Writer<copies> y_copy(args.normed.copy);
  const int width = args.rows.width, column = Layout::column();
  for (auto row = Layout::first_row(); row < args.rows.count; row += Layout::row_stride()) {
    const auto offset = row * width + column;
    const auto x = Layout::load_row(args.terms.x, offset, width);
    const auto branch = Layout::load_row(args.terms.branch, offset, width);
    const auto skip = Layout::load_row(args.terms.skip, offset, width);
    const auto x0 = Layout::load_row(args.terms.x0, offset, width);
    typename Layout::Row residual;
    float squares = 0;
#pragma unroll
    for (int k = 0; k < Layout::chunks; ++k) {
      residual.chunks[k] = {};
      if (column + k * kWarpColumns >= width) continue;
      const auto p = load_parameters(args.terms, width, column + k * kWarpColumns);
      float sum[kLaneColumns], mixed[kLaneColumns];
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i) {
        const auto sums = residual_sums<blend>(x.chunks[k][i], branch.chunks[k][i],
                                               skip.chunks[k][i], x0.chunks[k][i], p, i);
        sum[i] = sums.sum;
        mixed[i] = sums.residual;
      }
      Layout::store_chunk(args.sum, offset, k, sum);
      Layout::store_chunk(args.residual, offset, k, mixed);
      residual.chunks[k] = Pack8<T>::rounded(mixed);
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i)
        squares = fmaf(residual.chunks[k][i], residual.chunks[k][i], squares);
    }
    write_normed<Layout>(residual, squares, row, width, args.rows.channels, args.rows.norm_scale,
                         args.normed.y, args.normed.row_scale, y_copy);
  }
  y_copy.end();
}

struct BackwardArgs {
  ResidualNormTerms terms;
  ResidualNormRows rows;
  ResidualNormGradients gradients;
  std::int64_t columns;
  float* partials;  // [blocks, columns]
};

// Layout of a row of partials: vectors for mix[0], mix[1], sum_blend (omitted if null) and
// skip_weight, up to the last that exists; then the two elements of a scalar mix. Returns the
// number of vectors.
int num_vectors(const ResidualNormTerms& terms) {
  if (terms.sum_blend != nullptr) return 4;
  return terms.skip != nullptr ? 3 : terms.mix_is_vector ? 2 : 0;
}

// Registers hold a row of eight tensors and kVectors vectors of parameter gradients. CTAs have as
// many warps as the registers allow, since each CTA adds a row of partials for sum_rows.
template <typename Layout, int kVectors>
constexpr int kBackwardWarps = Layout::block_per_row                 ? kMaxRowWarps
                               : kVectors == 0                       ? 16
                               : Layout::chunks == 2 && kVectors < 4 ? 12
                                                                     : 8;

template <typename Layout, int kVectors, bool copies>
__global__ void __launch_bounds__(kBackwardWarps<Layout, kVectors>* kWarp)
    backward_kernel(const __grid_constant__ BackwardArgs args) {
  using T = typename Layout::T;
  ResidualNormTerms terms = args.terms;
  if constexpr (kVectors < 2) terms.mix_is_vector = false;
  if constexpr (kVectors < 3) terms.skip = nullptr, terms.skip_weight = nullptr;
  const bool mixed = terms.mix != nullptr;
  const auto& gradients = args.gradients;
  Fp8Writer<copies> dx_copy(gradients.dx_copy);
  const int width = args.rows.width, column = Layout::column();
  constexpr bool blend = kVectors == 4;
  constexpr int kMix0 = 0, kMix1 = 1, kSumBlend = 2, kSkipWeight = blend ? 3 : 2;
  float vectors[kVectors > 0 ? kVectors : 1][Layout::chunks][kLaneColumns] = {};
  float pair[2] = {};

  for (auto row = Layout::first_row(); row < args.rows.count; row += Layout::row_stride()) {
    const auto offset = row * width + column;
    auto x = Layout::load_row(terms.x, offset, width);
    auto branch = Layout::load_row(terms.branch, offset, width);
    auto skip = Layout::load_row(terms.skip, offset, width);
    auto x0 = Layout::load_row(terms.x0, offset, width);
    auto dy = Layout::load_row(gradients.dy, offset, width);
    auto dresidual = Layout::load_row(gradients.dresidual, offset, width);
    auto dsum = Layout::load_row(gradients.dsum, offset, width);
    auto dx0_later = Layout::load_row(gradients.dx0_later, offset, width);

    // Called in both loops: recomputation saves registers. x' is rounded as in forward.
    const auto recompute_sums = [&](int k, int i, const Parameters& p) {
      if (!mixed) return ResidualSums{0, 0, x.chunks[k][i]};
      auto sums = residual_sums<blend>(x.chunks[k][i], branch.chunks[k][i], skip.chunks[k][i],
                                       x0.chunks[k][i], p, i);
      sums.residual = static_cast<float>(static_cast<T>(sums.residual));
      return sums;
    };
    float squares = 0, dots = 0;
#pragma unroll
    for (int k = 0; k < Layout::chunks; ++k) {
      if (column + k * kWarpColumns >= width) continue;
      const auto p = load_parameters(terms, width, column + k * kWarpColumns);
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i) {
        const float residual = recompute_sums(k, i, p).residual;
        squares = fmaf(residual, residual, squares);
        dots = fmaf(residual, dy.chunks[k][i], dots);
      }
    }
    const auto norm = norm_gradient<Layout>(squares, dots, args.rows.channels, args.rows.norm_scale,
                                            gradients.dy_is_scaled);
    for (auto* kept : {&x, &branch, &skip, &x0, &dy, &dresidual, &dsum, &dx0_later})
      Layout::keep_packed(*kept);
    __syncwarp();  // else the compiler keeps the parameters in registers

#pragma unroll
    for (int k = 0; k < Layout::chunks; ++k) {
      if (column + k * kWarpColumns >= width) continue;
      const auto p = load_parameters(terms, width, column + k * kWarpColumns);
      float dx[kLaneColumns], dskip[kLaneColumns], dx0[kLaneColumns];
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i) {
        const auto sums = recompute_sums(k, i, p);
        const float dnorm = fmaf(-norm.x_scale, sums.residual, dy.chunks[k][i]);
        const float g = fmaf(norm.scale, dnorm, dresidual.chunks[k][i]);
        const float dtotal = p.mix0[i] * g;
        dx[i] = (blend ? p.sum_blend[i] * dtotal : dtotal) + dsum.chunks[k][i];
        dskip[i] = p.skip_weight[i] * dtotal;
        dx0[i] = fmaf(p.mix1[i], g, dx0_later.chunks[k][i]);
        if constexpr (blend) {
          float& sum = vectors[kSumBlend][k][i];
          sum = fmaf(dtotal, sums.sum, sum);
        }
        if constexpr (kVectors > kSkipWeight) {
          float& sum = vectors[kSkipWeight][k][i];
          sum = fmaf(dtotal, skip.chunks[k][i], sum);
        }
        if (kVectors > kMix1 && terms.mix_is_vector) {
          float &sum0 = vectors[kMix0][k][i], &sum1 = vectors[kMix1][k][i];
          sum0 = fmaf(g, sums.total, sum0);
          sum1 = fmaf(g, x0.chunks[k][i], sum1);
        } else {
          pair[0] = fmaf(g, sums.total, pair[0]);
          pair[1] = fmaf(g, x0.chunks[k][i], pair[1]);
        }
      }
      Layout::store_chunk(gradients.dx, offset, k, dx);
      dx_copy.store(offset + k * kWarpColumns, Pack8<T>::rounded(dx));
      Layout::store_chunk(gradients.dskip, offset, k, dskip);
      Layout::store_chunk(gradients.dx0, offset, k, dx0);
    }
  }

  dx_copy.end();

  float* partials = args.partials + blockIdx.x * args.columns;
#pragma unroll
  for (int v = 0; v < kVectors; ++v)
    write_vector_partial<Layout, kBackwardWarps<Layout, kVectors>>(
        vectors[v], width, partials + std::int64_t{v} * width);
  if (mixed && !terms.mix_is_vector)
    write_scalar_partials(pair, partials + std::int64_t{kVectors} * width);
}

}  // namespace

void residual_norm_backward(const ResidualNormTerms& terms, const ResidualNormRows& rows,
                            const ResidualNormGradients& gradients, const ResidualNormSums& sums,
                            const Workspace& workspace, Stream stream) {
  const std::int64_t vectors = num_vectors(terms), mixes = vectors > 0 ? 2 : 0;
  const bool scalar_mix = terms.mix != nullptr && !terms.mix_is_vector;
  const AllColumnSums parts{{{mixes * rows.width, terms.mix_is_vector ? sums.mix : SumTarget{}},
                             {(vectors - mixes) * rows.width, sums.skip},
                             {scalar_mix ? 2 : 0, sums.mix}}};
  const BackwardArgs args{terms, rows, gradients, parts.columns(), /*partials=*/nullptr};
  dispatch_layout(rows, [&](auto layout) {
    using Layout = decltype(layout);
    const auto launch = [&]<int kVectors>() {
      dispatch_copies<typename Layout::T>(gradients.dx_copy.values != nullptr, [&](auto copies) {
        launch_backward<Layout>(backward_kernel<Layout, kVectors, copies()>, args,
                                kBackwardWarps<Layout, kVectors>, parts, workspace,
                                "residual_norm_backward", stream);
      });
    };
    switch (vectors) {
      case 0:
        return launch.template operator()<0>();
      case 2:
        return launch.template operator()<2>();
      case 3:
        return launch.template operator()<3>();
      default:
        return launch.template operator()<4>();
    }
  });
}

void residual_norm_forward(const ResidualNormTerms& terms, const ResidualNormRows& rows, void* sum,
                           void* residual, const NormedRows& normed, Stream stream) {
  const ForwardArgs args{terms, rows, sum, residual, normed};
  dispatch_layout(rows, [&](auto layout) {
    using Layout = decltype(layout);
    dispatch_copies<typename Layout::T>(normed.copy.values != nullptr, [&](auto copies) {
      const auto kernel = terms.sum_blend != nullptr ? forward_kernel<Layout, copies(), true>
                                                     : forward_kernel<Layout, copies(), false>;
      launch_forward<Layout>(kernel, args, kForwardWarps, stream);
    });
  });
  check_launch("residual_norm_forward");
}

}  // namespace tg::cuda
