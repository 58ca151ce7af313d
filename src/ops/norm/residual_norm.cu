// Fused residual adds, skip, mix and norms of one or two lanes: each tensor of the formula
// (ops/norm/residual_norm.h) is read or written once, and a row stays in registers in between.
// Memory-bound.
#include "ops/norm/residual_norm.cuh"

namespace tg::cuda {

namespace {

struct ForwardArgs {
  ResidualNormTerms terms;
  ResidualNormRows rows;
  ResidualNormOutputs out;
};

constexpr int kWarps = 8;

// `blend`: terms.sum_blend is not null; always with two lanes.
template <typename Layout, Lanes lanes, bool blend, bool copies>
__global__ void __launch_bounds__(kWarps* kWarp)
    forward_kernel(const __grid_constant__ ForwardArgs args) {
  using T = typename Layout::T;
  constexpr int count = kLanes<lanes>;
  const auto& out = args.out;
  FirstWriter<lanes, copies> copy0(out.normed[0].copy);
  SecondWriter<lanes, copies> copy1(out.normed[1].copy);
  const LaneWeights<lanes> weights(args.terms.weights);
  const int width = args.rows.width, column = Layout::column();
  for (auto row = Layout::first_row(); row < args.rows.count; row += Layout::row_stride()) {
    const auto offset = row * width + column;
    const TermRows<Layout, lanes> in(args.terms, offset, width);
    typename Layout::Row normed[count];
    float squares[count] = {};
#pragma unroll
    for (int k = 0; k < Layout::chunks; ++k) {
      for (auto& lane : normed) lane.chunks[k] = {};
      if (column + k * kWarpColumns >= width) continue;
      const auto p = load_parameters<lanes>(args.terms, width, column + k * kWarpColumns);
      float sum[kLaneColumns], total[kLaneColumns], columns[count][kLaneColumns];
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i) {
        const auto element = in.template element<blend>(weights, p, k, i);
        sum[i] = element.sum;
        total[i] = element.total;
        columns[0][i] = element.mixed;
        if constexpr (count == 2) columns[1][i] = element.lane1;
      }
      if constexpr (lanes == Lanes::one) Layout::store_chunk(out.sum, offset, k, sum);
      if constexpr (count == 2) {
        Layout::store_chunk(out.lanes[0], offset, k, total);
        Layout::store_chunk(out.mixed, offset, k, columns[0]);
        Layout::store_chunk(out.lanes[1], offset, k, columns[1]);
      } else {
        Layout::store_chunk(out.lanes[0], offset, k, columns[0]);
      }
#pragma unroll
      for (int lane = 0; lane < count; ++lane) {
        auto& chunk = normed[lane].chunks[k];
        chunk = Pack8<T>::rounded(columns[lane]);
#pragma unroll
        for (int i = 0; i < kLaneColumns; ++i)
          squares[lane] = fmaf(chunk[i], chunk[i], squares[lane]);
      }
    }
    write_normed<Layout>(normed[0], squares[0], row, width, args.rows.channels,
                         args.rows.norm_scale, out.normed[0].y, out.normed[0].row_scale, copy0);
    if constexpr (count == 2)
      write_normed<Layout>(normed[1], squares[1], row, width, args.rows.channels,
                           args.terms.norm_scale_1, out.normed[1].y, out.normed[1].row_scale,
                           copy1);
  }
  copy0.end();
  copy1.end();
}

}  // namespace

void residual_norm_forward(const ResidualNormTerms& terms, const ResidualNormRows& rows,
                           const ResidualNormOutputs& outputs, Stream stream) {
  ForwardArgs args{terms, rows, outputs};
  const bool copies = share_scale(args.out.normed[0].copy, args.out.normed[1].copy);
  const auto launch = [&]<Lanes lanes, bool blend>() {
    dispatch_layout(rows, [&](auto layout) {
      using Layout = decltype(layout);
      dispatch_copies<typename Layout::T>(copies, [&](auto with_copies) {
        launch_forward<Layout>(forward_kernel<Layout, lanes, blend, with_copies()>, args, kWarps,
                               stream);
      });
    });
  };
  if (terms.lanes == 2)
    launch.template operator()<Lanes::two, true>();
  else if (terms.weights != nullptr)
    launch.template operator()<Lanes::one_weighted, false>();
  else if (terms.sum_blend != nullptr)
    launch.template operator()<Lanes::one, true>();
  else
    launch.template operator()<Lanes::one, false>();
  check_launch("residual_norm_forward");
}

}  // namespace tg::cuda
