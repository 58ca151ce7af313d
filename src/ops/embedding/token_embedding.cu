// Fused token embedding, bigram, RMSNorm and smear. Forward reads the rows of the table and the
// bigrams and writes y; backward reads these and dy and writes dsum and dbigram. A warp processes
// consecutive positions, so that smear's previous position is in registers. Memory-bound.
#include "ops/embedding/token_rows.cuh"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

namespace {

// Scope of smear(): no smear, within the sequence, or within the document.
enum class Smeared { off, in_sequences, in_documents };

// Whether position `t` of its sequence is the last one of its document.
__device__ bool ends_document(const TokenEmbeddingArgs& args, std::int64_t position,
                              std::int64_t t) {
  return args.document_ends[position] == t + 1;
}

// Computes weights = σ(gate).
template <typename T, int kPacks>
__device__ void load_smear_weights(const TokenEmbeddingArgs& args,
                                   Values<T, kPacks>& smear_weight) {
  for_each_element<T, kPacks>([&](int j, int k, int column) {
    smear_weight[j][k] =
        column < args.width ? __fdividef(1.0f, 1 + expf(-args.gate[column])) : 0.0f;
  });
}

template <typename T, int kPacks, Smeared kKind>
__global__ void __launch_bounds__(kWarps* kWarp)
    forward_kernel(TokenEmbeddingArgs args, T* __restrict__ y) {
  constexpr bool kSmeared = kKind != Smeared::off;
  const Run run(args.batch, args.length);
  const float scale = args.bigram == nullptr ? 0.0f : *args.bigram_scale;
  const float mean_weight = 1.0f / args.channels;
  Values<T, kPacks> smear_weight, previous = {};
  if (kSmeared) load_smear_weights<T, kPacks>(args, smear_weight);
  for (std::int64_t t = run.begin - (kSmeared && run.begin > 0 ? 1 : 0); t < run.end; ++t) {
    const std::int64_t position = run.sequence_start + t;
    const TokenSum<T, kPacks> sum(args, position);
    Values<T, kPacks> x;
    float squares = 0;
    for_each_element<T, kPacks>([&](int j, int k, int) {
      x[j][k] = sum(j, k, scale);
      squares += x[j][k] * x[j][k];
    });
    const float inverse_rms = rsqrtf(warp_sum(squares) * mean_weight + kNormEpsilon);
    for_each_element<T, kPacks>([&](int j, int k, int) { x[j][k] *= inverse_rms; });
    if (t >= run.begin) {
      store_row<T, kPacks>(y + position * args.width, args.width, [&](int j, int k) {
        return kSmeared ? fmaf(smear_weight[j][k], previous[j][k] - x[j][k], x[j][k]) : x[j][k];
      });
    }
    if (kSmeared) {
      const bool passes = kKind != Smeared::in_documents || !ends_document(args, position, t);
      for_each_element<T, kPacks>(
          [&](int j, int k, int) { previous[j][k] = passes ? x[j][k] : 0.0f; });
    }
  }
}

// With r = x/rms(x) and s = σ(gate): y_t = (1 − s)·r_t + s·r_{t−1}. Hence dr_t = (1 − s)·dy_t +
// s·dy_{t+1} and ds = Σ r_t·(dy_{t+1} − dy_t), where dy_{t+1} is zero after the end of the sequence
// or of the document of t.
template <typename T, int kPacks, Smeared kKind>
__global__ void __launch_bounds__(kWarps* kWarp,
                                  kKind != Smeared::off && kPacks * Pack<T>::size > 16 ? 2 : 4)
    backward_kernel(TokenEmbeddingArgs args, TokenEmbeddingGradients gradients) {
  constexpr bool kSmeared = kKind != Smeared::off;
  const Run run(args.batch, args.length);
  const int width = args.width;
  const float scale = args.bigram == nullptr ? 0.0f : *args.bigram_scale;
  const float mean_weight = 1.0f / args.channels;
  const auto* dy = static_cast<const T*>(gradients.dy);
  Values<T, kPacks> smear_weight, dsmear_weight = {};
  float dscale = 0;
  if (kSmeared) load_smear_weights<T, kPacks>(args, smear_weight);
  RowPacks<T, kPacks> dy_now, dy_next;
  if (run.begin < run.end) dy_now.load(dy + (run.sequence_start + run.begin) * width, width);
  for (std::int64_t t = run.begin; t < run.end; ++t) {
    const std::int64_t position = run.sequence_start + t;
    dy_next.clear();
    if (t + 1 < (kSmeared ? args.length : run.end))
      dy_next.load(dy + (position + 1) * width, width);
    const bool passes = kKind != Smeared::in_documents || !ends_document(args, position, t);
    const auto dy_after = [&](int j, int k) { return passes ? dy_next(j, k) : 0.0f; };
    const TokenSum<T, kPacks> sum(args, position);
    Values<T, kPacks> x, dx;
    float squares = 0, dot = 0;
    for_each_element<T, kPacks>([&](int j, int k, int) {
      x[j][k] = sum(j, k, scale);
      dx[j][k] = dy_now(j, k);
      if (kSmeared)
        dx[j][k] = fmaf(smear_weight[j][k], dy_after(j, k) - dy_now(j, k), dy_now(j, k));
      squares += x[j][k] * x[j][k];
      dot += x[j][k] * dx[j][k];
    });
    const float inverse_rms = rsqrtf(warp_sum(squares) * mean_weight + kNormEpsilon);
    // Through RMSNorm: dx = (dr − r·mean(r·dr)) / rms(x).
    const float x_scale = warp_sum(dot) * mean_weight * inverse_rms * inverse_rms;
    for_each_element<T, kPacks>([&](int j, int k, int) {
      dx[j][k] = inverse_rms * (dx[j][k] - x_scale * x[j][k]);
      dscale = fmaf(dx[j][k], sum.bigram(j, k), dscale);
    });
    if (gradients.dsum != nullptr)
      store_row<T, kPacks>(static_cast<T*>(gradients.dsum) + position * width, width,
                           [&](int j, int k) { return dx[j][k]; });
    if (gradients.dbigram != nullptr)
      store_row<T, kPacks>(static_cast<T*>(gradients.dbigram) + position * width, width,
                           [&](int j, int k) { return scale * dx[j][k]; });
    if (kSmeared)
      for_each_element<T, kPacks>([&](int j, int k, int) {
        dsmear_weight[j][k] =
            fmaf(inverse_rms * x[j][k], dy_after(j, k) - dy_now(j, k), dsmear_weight[j][k]);
      });
    dy_now = dy_next;
  }
  if (gradients.partials == nullptr) return;
  dscale = warp_sum(dscale);
  store_block_sums(gradients.partials, width + 1, [&](float* sums) {
    for_each_element<T, kPacks>([&](int j, int k, int column) {
      if (kSmeared && column < width)
        sums[column] += dsmear_weight[j][k] * smear_weight[j][k] * (1 - smear_weight[j][k]);
    });
    if (threadIdx.x % kWarp == 0) sums[width] += dscale;
  });
}

// Calls op(T{}, packs per lane, Smeared).
template <typename Op>
void dispatch_smeared(const TokenEmbeddingArgs& args, Op op) {
  dispatch_row(args, [&](auto zero, auto packs) {
    using enum Smeared;
    if (args.gate == nullptr) return op(zero, packs, std::integral_constant<Smeared, off>());
    if (args.document_ends == nullptr)
      return op(zero, packs, std::integral_constant<Smeared, in_sequences>());
    op(zero, packs, std::integral_constant<Smeared, in_documents>());
  });
}

}  // namespace

int token_embedding_sums(const TokenEmbeddingArgs& args) {
  return args.smear_weight == nullptr ? args.width + 1 : args.window + 2;
}

void token_embedding_forward(const TokenEmbeddingArgs& args, void* y, Stream stream) {
  if (args.smear_weight != nullptr) return gated_forward(args, y, stream);
  const auto blocks = static_cast<unsigned>(num_blocks(args));
  dispatch_smeared(args, [&](auto zero, auto packs, auto smeared) {
    using T = decltype(zero);
    forward_kernel<T, packs, smeared>
        <<<blocks, kWarps * kWarp, 0, stream>>>(args, static_cast<T*>(y));
  });
  check_launch("token_embedding_forward");
}

void token_embedding_backward(const TokenEmbeddingArgs& args, TokenEmbeddingGradients gradients,
                              const Workspace& workspace, Stream stream) {
  const std::int64_t blocks = num_blocks(args);
  const int columns = token_embedding_sums(args);
  gradients.partials = gradients.sums == nullptr ? nullptr : workspace(blocks * columns);
  if (args.smear_weight != nullptr) {
    gated_backward(args, gradients, stream);
  } else {
    dispatch_smeared(args, [&](auto zero, auto packs, auto smeared) {
      backward_kernel<decltype(zero), packs, smeared>
          <<<static_cast<unsigned>(blocks), kWarps * kWarp, columns * sizeof(float), stream>>>(
              args, gradients);
    });
    check_launch("token_embedding_backward");
  }
  if (gradients.sums == nullptr) return;
  sum_rows(gradients.partials, blocks, columns, gradients.sums, stream);
}

}  // namespace tg::cuda
