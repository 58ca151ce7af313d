// Backward of residual_norm (ops/norm/residual_norm.h) in one pass over its tensors. Memory-bound.
#include "ops/norm/residual_norm.cuh"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

namespace {

struct BackwardArgs {
  ResidualNormTerms terms;
  ResidualNormRows rows;
  ResidualNormGradients gradients;
  std::int64_t columns;
  float* partials;  // [blocks, columns]
};

// Layout of a row of partials: vectors for mix[0], mix[1], sum_blend (of one lane, omitted if null)
// and skip_weight, up to the last that exists; then weights, or of one lane without weights the two
// elements of a scalar mix. Returns the number of vectors.
int num_vectors(const ResidualNormTerms& terms) {
  if (terms.lanes == 2 || terms.sum_blend != nullptr) return 4;
  return terms.skip != nullptr ? 3 : terms.mix_is_vector ? 2 : 0;
}

// Registers hold a row of each tensor, up to eleven of two lanes, and kVectors vectors of parameter
// gradients. CTAs have as many warps as the registers allow, since each CTA adds a row of partials
// for sum_rows.
template <typename Layout, Lanes lanes, int kVectors>
constexpr int kBackwardWarps = Layout::block_per_row                 ? kMaxRowWarps
                               : lanes != Lanes::one                 ? 8
                               : kVectors == 0                       ? 16
                               : Layout::chunks == 2 && kVectors < 4 ? 12
                                                                     : 8;
// With more chunks a thread's part of several lanes or terms would not fit in registers.
template <Lanes lanes>
constexpr int kMaxChunks = lanes == Lanes::one ? 3 : 2;

// One row of each upstream gradient.
template <typename Layout, Lanes lanes>
struct UpstreamRows {
  typename Layout::Row dy[kLanes<lanes>], dlanes[kLanes<lanes>], dsum, dx0_later;

  __device__ UpstreamRows(const ResidualNormGradients& from, std::int64_t offset, int width) {
#pragma unroll
    for (int lane = 0; lane < kLanes<lanes>; ++lane) {
      dy[lane] = Layout::load_row(from.dy[lane], offset, width);
      if constexpr (lanes != Lanes::one_weighted)
        dlanes[lane] = Layout::load_row(from.dlanes[lane], offset, width);
    }
    if constexpr (lanes == Lanes::one) dsum = Layout::load_row(from.dsum, offset, width);
    if constexpr (lanes != Lanes::one_weighted)
      dx0_later = Layout::load_row(from.dx0_later, offset, width);
  }
  __device__ void keep_packed() {
#pragma unroll
    for (int lane = 0; lane < kLanes<lanes>; ++lane) {
      Layout::keep_packed(dy[lane]);
      if constexpr (lanes != Lanes::one_weighted) Layout::keep_packed(dlanes[lane]);
    }
    if constexpr (lanes == Lanes::one) Layout::keep_packed(dsum);
    if constexpr (lanes != Lanes::one_weighted) Layout::keep_packed(dx0_later);
  }
};

template <typename Layout, Lanes lanes, int kVectors, bool copies>
__global__ void __launch_bounds__(kBackwardWarps<Layout, lanes, kVectors>* kWarp)
    backward_kernel(const __grid_constant__ BackwardArgs args) {
  using T = typename Layout::T;
  constexpr int count = kLanes<lanes>;
  constexpr bool one = lanes == Lanes::one, weighted = lanes == Lanes::one_weighted,
                 two = lanes == Lanes::two, blend = kVectors == 4;
  constexpr int kMix0 = 0, kMix1 = 1, kSumBlend = 2, kSkipWeight = blend ? 3 : 2;
  ResidualNormTerms terms = args.terms;
  if constexpr (kVectors < 2) terms.mix_is_vector = false;
  if constexpr (kVectors < 3) terms.skip = nullptr, terms.skip_weight = nullptr;
  const bool mixed = !one || terms.mix != nullptr;
  const auto& gradients = args.gradients;
  FirstWriter<lanes, copies> copy0(gradients.copies[0]);
  SecondWriter<lanes, copies> copy1(gradients.copies[1]);
  const LaneWeights<lanes> weights(terms.weights);
  const int width = args.rows.width, column = Layout::column();
  float vectors[kVectors > 0 ? kVectors : 1][Layout::chunks][kLaneColumns] = {};
  float scalars[one ? 2 : count * kLaneTerms] = {};

  for (auto row = Layout::first_row(); row < args.rows.count; row += Layout::row_stride()) {
    const auto offset = row * width + column;
    TermRows<Layout, lanes> in(terms, offset, width);
    UpstreamRows<Layout, lanes> upstream(gradients, offset, width);

    // Called in both loops: recomputation saves registers. The norms' inputs are rounded as in
    // forward.
    const auto recompute = [&](int k, int i, const Parameters& p) {
      using Rows = TermRows<Layout, lanes>;
      if (!mixed) return typename Rows::Element{0, 0, in.terms[0].chunks[k][i], 0};
      auto element = in.template element<blend>(weights, p, k, i);
      element.mixed = Rows::rounded(element.mixed);
      element.lane1 = Rows::rounded(element.lane1);
      return element;
    };
    float squares[count] = {}, dots[count] = {};
#pragma unroll
    for (int k = 0; k < Layout::chunks; ++k) {
      if (column + k * kWarpColumns >= width) continue;
      const auto p = load_parameters<lanes>(terms, width, column + k * kWarpColumns);
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i) {
        const auto element = recompute(k, i, p);
#pragma unroll
        for (int lane = 0; lane < count; ++lane) {
          const float x = lane == 0 ? element.mixed : element.lane1;
          squares[lane] = fmaf(x, x, squares[lane]);
          dots[lane] = fmaf(x, upstream.dy[lane].chunks[k][i], dots[lane]);
        }
      }
    }
    NormGradient norms[count];
#pragma unroll
    for (int lane = 0; lane < count; ++lane)
      norms[lane] = norm_gradient<Layout>(squares[lane], dots[lane], args.rows.channels,
                                          lane == 0 ? args.rows.norm_scale : terms.norm_scale_1,
                                          gradients.dy_is_scaled[lane]);
    in.keep_packed();
    upstream.keep_packed();
    __syncwarp();  // else the compiler keeps the parameters in registers

#pragma unroll
    for (int k = 0; k < Layout::chunks; ++k) {
      if (column + k * kWarpColumns >= width) continue;
      const auto p = load_parameters<lanes>(terms, width, column + k * kWarpColumns);
      float dterms[one ? 1 : kLaneTerms][kLaneColumns], dskip[kLaneColumns], dx0[kLaneColumns];
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i) {
        const auto element = recompute(k, i, p);
        const float dnorm = fmaf(-norms[0].x_scale, element.mixed, upstream.dy[0].chunks[k][i]);
        float d[2] = {};  // gradients of the lanes' sums; unused by one lane without weights
        if constexpr (weighted) {
          d[0] = norms[0].scale * dnorm;
        } else {
          const float skip = in.skip.chunks[k][i], x0 = in.x0.chunks[k][i];
          const float dlane = upstream.dlanes[0].chunks[k][i];
          const float g = one ? fmaf(norms[0].scale, dnorm, dlane) : norms[0].scale * dnorm;
          const float dtotal = one ? p.mix0[i] * g : fmaf(p.mix0[i], g, dlane);
          if constexpr (one)
            // Not dtotal + dsum, whose product the compiler rounds or not, column by column.
            dterms[0][i] = blend ? fmaf(p.sum_blend[i], dtotal, upstream.dsum.chunks[k][i])
                                 : fmaf(p.mix0[i], g, upstream.dsum.chunks[k][i]);
          else
            d[0] = p.sum_blend[i] * dtotal;
          dskip[i] = p.skip_weight[i] * dtotal;
          dx0[i] = fmaf(p.mix1[i], g, upstream.dx0_later.chunks[k][i]);
          const auto add = [&](float& sum, float a, float b) { sum = fmaf(a, b, sum); };
          if constexpr (blend) add(vectors[kSumBlend][k][i], dtotal, element.sum);
          if constexpr (kVectors > kSkipWeight) add(vectors[kSkipWeight][k][i], dtotal, skip);
          if (two || (kVectors > kMix1 && terms.mix_is_vector)) {
            add(vectors[kMix0][k][i], g, element.total);
            add(vectors[kMix1][k][i], g, x0);
          } else {
            add(scalars[0], g, element.total);
            add(scalars[1], g, x0);
          }
        }
        if constexpr (two) {
          const float dnorm1 = fmaf(-norms[1].x_scale, element.lane1, upstream.dy[1].chunks[k][i]);
          d[1] = upstream.dlanes[1].chunks[k][i] + norms[1].scale * dnorm1;
        }
        if constexpr (!one) {
#pragma unroll
          for (int t = 0; t < kLaneTerms; ++t) {
            dterms[t][i] = 0;
#pragma unroll
            for (int lane = 0; lane < count; ++lane) {
              dterms[t][i] = fmaf(weights.values[lane][t], d[lane], dterms[t][i]);
              float& sum = scalars[lane * kLaneTerms + t];
              sum = fmaf(d[lane], in.terms[t].chunks[k][i], sum);
            }
          }
        }
      }
      constexpr int kGradients = one ? 1 : kLaneTerms;
#pragma unroll
      for (int t = 0; t < kGradients; ++t)
        Layout::store_chunk(gradients.dterms[t], offset, k, dterms[t]);
      constexpr int kFirst = one ? 0 : kLaneTerms - 2;
      copy0.store(offset + k * kWarpColumns, Pack8<T>::rounded(dterms[kFirst]));
      copy1.store(offset + k * kWarpColumns, Pack8<T>::rounded(dterms[kGradients - 1]));
      if constexpr (!weighted) {
        Layout::store_chunk(gradients.dskip, offset, k, dskip);
        Layout::store_chunk(gradients.dx0, offset, k, dx0);
      }
    }
  }
  copy0.end();
  copy1.end();

  float* partials = args.partials + blockIdx.x * args.columns;
#pragma unroll
  for (int v = 0; v < kVectors; ++v)
    write_vector_partial<Layout, kBackwardWarps<Layout, lanes, kVectors>>(
        vectors[v], width, partials + std::int64_t{v} * width);
  if (!one || (mixed && !terms.mix_is_vector))
    write_scalar_partials(scalars, partials + std::int64_t{kVectors} * width);
}

}  // namespace

void residual_norm_backward(const ResidualNormTerms& terms, const ResidualNormRows& rows,
                            const ResidualNormGradients& gradients, const ResidualNormSums& sums,
                            const Workspace& workspace, Stream stream) {
  const bool one = terms.lanes == 1 && terms.weights == nullptr;
  const std::int64_t vectors = num_vectors(terms), mixes = vectors > 0 ? 2 : 0;
  const bool vector_mix = terms.mix_is_vector, scalar_mix = terms.mix != nullptr && !vector_mix;
  const AllColumnSums parts{
      {{mixes * rows.width, vector_mix ? sums.mix : SumTarget{}},
       {(vectors - mixes) * rows.width, sums.skip},
       one ? ColumnSums{scalar_mix ? 2 : 0, sums.mix}
           : ColumnSums{std::int64_t{terms.lanes} * kLaneTerms, sums.weights}}};
  BackwardArgs args{terms, rows, gradients, parts.columns(), /*partials=*/nullptr};
  const bool copies = share_scale(args.gradients.copies[0], args.gradients.copies[1]);
  const auto launch = [&]<Lanes lanes, int kVectors>() {
    dispatch_layout<kMaxChunks<lanes>>(rows, [&](auto layout) {
      using Layout = decltype(layout);
      dispatch_copies<typename Layout::T>(copies, [&](auto with_copies) {
        launch_backward<Layout>(backward_kernel<Layout, lanes, kVectors, with_copies()>, args,
                                kBackwardWarps<Layout, lanes, kVectors>, parts, workspace,
                                "residual_norm_backward", stream);
      });
    });
  };
  if (terms.lanes == 2) return launch.template operator()<Lanes::two, 4>();
  if (!one) return launch.template operator()<Lanes::one_weighted, 0>();
  switch (vectors) {
    case 0:
      return launch.template operator()<Lanes::one, 0>();
    case 2:
      return launch.template operator()<Lanes::one, 2>();
    case 3:
      return launch.template operator()<Lanes::one, 3>();
    default:
      return launch.template operator()<Lanes::one, 4>();
  }
}

}  // namespace tg::cuda
