// Variant of token_embedding.cu's kernels with gated_smear() (gated_smear.h), which precedes the
// norm. With e_t the rows before it, m_t = 0 at a document's first token, else 1, and s_t =
// m_t·λ·σ(w·e_t[:W]):
//   x_t = e_t + s_t·e_{t−1}
//   de_t = dx_t + s_{t+1}·dx_{t+1} + s_t·(1 − σ)·(dx_t·e_{t−1})·w
//   dw = Σ s_t·(1 − σ)·(dx_t·e_{t−1})·e_t[:W],  dλ = Σ m_t·σ·(dx_t·e_{t−1})
// Backward runs from later to earlier positions, keeping only s_{t+1}·dx_{t+1} in registers.
#include "ops/embedding/token_rows.cuh"

namespace tg::cuda {

namespace {

// A lane's gate weights. The window lies within the lanes' first packs.
template <typename T>
struct GateWindow {
  static constexpr int size = Pack<T>::size;
  static_assert(kMaxSmearWindow <= size * kWarp);
  float weight[size], lambda;

  __device__ explicit GateWindow(const TokenEmbeddingArgs& args) : lambda(*args.smear_lambda) {
#pragma unroll
    for (int k = 0; k < size; ++k)
      weight[k] = column(k) < args.window ? args.smear_weight[column(k)] : 0.0f;
  }
  static __device__ int column(int k) {
    return threadIdx.x % kWarp * size + k;
  }
  // Returns σ(w·e[:W]).
  __device__ float sigmoid(const float (&first_pack)[size]) const {
    float dot = 0;
#pragma unroll
    for (int k = 0; k < size; ++k) dot = fmaf(weight[k], first_pack[k], dot);
    return __fdividef(1.0f, 1 + expf(-warp_sum(dot)));
  }
};

// Whether position `t` of its sequence is not the first of its document.
__device__ bool continues_document(const TokenEmbeddingArgs& args, std::int64_t position,
                                   std::int64_t t) {
  return t > 0 && args.ids[position] != args.bos_id;
}

template <typename T, int kPacks>
__global__ void __launch_bounds__(kWarps* kWarp)
    gated_forward_kernel(TokenEmbeddingArgs args, T* __restrict__ y) {
  const Run run(args.batch, args.length);
  const GateWindow<T> gate(args);
  const float scale = args.bigram == nullptr ? 0.0f : *args.bigram_scale;
  const float mean_weight = 1.0f / args.channels;
  Values<T, kPacks> previous = {};
  for (std::int64_t t = run.begin - (run.begin > 0 ? 1 : 0); t < run.end; ++t) {
    const std::int64_t position = run.sequence_start + t;
    const TokenSum<T, kPacks> sum(args, position);
    Values<T, kPacks> e;
    for_each_element<T, kPacks>([&](int j, int k, int) { e[j][k] = sum(j, k, scale); });
    if (t >= run.begin) {
      const float gate_value = gate.sigmoid(e[0]);
      const float gate_scale =
          continues_document(args, position, t) ? gate.lambda * gate_value : 0.0f;
      Values<T, kPacks> x;
      float squares = 0;
      for_each_element<T, kPacks>([&](int j, int k, int) {
        x[j][k] = fmaf(gate_scale, previous[j][k], e[j][k]);
        squares += x[j][k] * x[j][k];
      });
      const float inverse_rms = rsqrtf(warp_sum(squares) * mean_weight + kNormEpsilon);
      store_row<T, kPacks>(y + position * args.width, args.width,
                           [&](int j, int k) { return inverse_rms * x[j][k]; });
    }
    for_each_element<T, kPacks>([&](int j, int k, int) { previous[j][k] = e[j][k]; });
  }
}

template <typename T, int kPacks>
__global__ void __launch_bounds__(kWarps* kWarp, kPacks* Pack<T>::size > 16 ? 2 : 3)
    gated_backward_kernel(TokenEmbeddingArgs args, TokenEmbeddingGradients gradients) {
  const Run run(args.batch, args.length);
  const GateWindow<T> gate(args);
  const int width = args.width;
  const float scale = args.bigram == nullptr ? 0.0f : *args.bigram_scale;
  const float mean_weight = 1.0f / args.channels;
  const auto* dy = static_cast<const T*>(gradients.dy);
  float dweight[Pack<T>::size] = {}, dlambda = 0, dscale = 0;
  Values<T, kPacks> de = {};  // between iterations: s_{t+1}·dx_{t+1}
  TokenSum<T, kPacks> current, previous;
  // Starts at the first position after the run, which contributes to the gradient of the run's last
  // one.
  const std::int64_t last = run.end < args.length ? run.end : run.end - 1;
  if (run.begin < run.end) current = TokenSum<T, kPacks>(args, run.sequence_start + last);
  for (std::int64_t t = last; run.begin < run.end && t >= run.begin; --t) {
    const std::int64_t position = run.sequence_start + t;
    previous.clear();
    if (t > 0) previous = TokenSum<T, kPacks>(args, position - 1);
    RowPacks<T, kPacks> dy_current;
    dy_current.load(dy + position * width, width);
    Values<T, kPacks> e, x, dx;
    for_each_element<T, kPacks>([&](int j, int k, int) { e[j][k] = current(j, k, scale); });
    const bool continues = continues_document(args, position, t);
    const float gate_value = gate.sigmoid(e[0]),
                gate_scale = continues ? gate.lambda * gate_value : 0.0f;
    float squares = 0, dot = 0;
    for_each_element<T, kPacks>([&](int j, int k, int) {
      x[j][k] = fmaf(gate_scale, previous(j, k, scale), e[j][k]);
      squares += x[j][k] * x[j][k];
      dot += x[j][k] * dy_current(j, k);
    });
    const float inverse_rms = rsqrtf(warp_sum(squares) * mean_weight + kNormEpsilon);
    // Through RMSNorm: dx = (dy − y·mean(y·dy)) / rms(x).
    const float x_scale = warp_sum(dot) * mean_weight * inverse_rms * inverse_rms;
    float dot_previous = 0;  // dx·e_{t−1}
    for_each_element<T, kPacks>([&](int j, int k, int) {
      dx[j][k] = inverse_rms * (dy_current(j, k) - x_scale * x[j][k]);
      dot_previous = fmaf(dx[j][k], previous(j, k, scale), dot_previous);
    });
    dot_previous = continues ? warp_sum(dot_previous) : 0.0f;
    if (t < run.end) {
      const float slope = gate_scale * (1 - gate_value) * dot_previous;
      dlambda = fmaf(gate_value, dot_previous, dlambda);
#pragma unroll
      for (int k = 0; k < Pack<T>::size; ++k) {
        dweight[k] = fmaf(slope, e[0][k], dweight[k]);
        de[0][k] = fmaf(slope, gate.weight[k], de[0][k]);
      }
      for_each_element<T, kPacks>([&](int j, int k, int) {
        de[j][k] += dx[j][k];
        dscale = fmaf(de[j][k], current.bigram(j, k), dscale);
      });
      if (gradients.dsum != nullptr)
        store_row<T, kPacks>(static_cast<T*>(gradients.dsum) + position * width, width,
                             [&](int j, int k) { return de[j][k]; });
      if (gradients.dbigram != nullptr)
        store_row<T, kPacks>(static_cast<T*>(gradients.dbigram) + position * width, width,
                             [&](int j, int k) { return scale * de[j][k]; });
    }
    for_each_element<T, kPacks>([&](int j, int k, int) { de[j][k] = gate_scale * dx[j][k]; });
    current = previous;
  }
  if (gradients.partials == nullptr) return;
  dscale = warp_sum(dscale);
  store_block_sums(gradients.partials, args.window + 2, [&](float* sums) {
#pragma unroll
    for (int k = 0; k < Pack<T>::size; ++k) {
      if (gate.column(k) < args.window) sums[gate.column(k)] += dweight[k];
    }
    if (threadIdx.x % kWarp != 0) return;
    sums[args.window] += dlambda;
    sums[args.window + 1] += dscale;
  });
}

}  // namespace

void gated_forward(const TokenEmbeddingArgs& args, void* y, Stream stream) {
  const auto blocks = static_cast<unsigned>(num_blocks(args));
  dispatch_row(args, [&](auto zero, auto packs) {
    using T = decltype(zero);
    gated_forward_kernel<T, packs><<<blocks, kWarps * kWarp, 0, stream>>>(args, static_cast<T*>(y));
  });
  check_launch("token_embedding_forward");
}

void gated_backward(const TokenEmbeddingArgs& args, const TokenEmbeddingGradients& gradients,
                    Stream stream) {
  const auto blocks = static_cast<unsigned>(num_blocks(args));
  const auto shared = token_embedding_sums(args) * sizeof(float);
  dispatch_row(args, [&](auto zero, auto packs) {
    gated_backward_kernel<decltype(zero), packs>
        <<<blocks, kWarps * kWarp, shared, stream>>>(args, gradients);
  });
  check_launch("token_embedding_backward");
}

}  // namespace tg::cuda
