// Launches attention_forward.cuh's kernel.
#include "ops/attention/kernels/attention_forward.cuh"

namespace tg::cuda {

namespace {

template <typename T, int head_dim>
void launch(const AttentionShape& shape, const AttentionInputs& in, const AttentionOutputs& out,
            Stream stream) {
  using Storage = attention::ForwardStorage<T, head_dim>;
  const auto map = [&](const HeadVectors& heads_view, int heads, int box_tokens) {
    return attention::make_heads_map<T, head_dim>(heads_view, shape, heads, box_tokens);
  };
  const HeadVectors y{out.y, std::int64_t{shape.heads} * head_dim, head_dim};
  const attention::ForwardMaps maps{.q = map(in.q, shape.heads, attention::kQueryTile),
                                    .k = map(in.k, shape.kv_heads, attention::kKeys),
                                    .v = map(in.v, shape.kv_heads, attention::kKeys),
                                    .y = map(y, shape.heads, 16)};
  const attention::ForwardWork work{in.visible_from, out.logsumexp, out.next_tile};
  const auto kernel = attention::forward_kernel<T, head_dim>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Storage));
  cudaMemsetAsync(out.next_tile, 0, sizeof(int), stream);
  const int tiles = attention::ForwardTiles{shape, work}.count();
  kernel<<<blocks_for(tiles, 1), attention::kThreads, sizeof(Storage), stream>>>(maps, shape, work);
  check_launch("attention_forward");
}

}  // namespace

void attention_forward(const AttentionShape& shape, const AttentionInputs& in,
                       const AttentionOutputs& out, Dtype dtype, Stream stream) {
  if (shape.batch * shape.seq_len == 0) return;
  attention::dispatch_heads(shape, dtype, [&](auto zero, auto head_dim) {
    launch<decltype(zero), head_dim()>(shape, in, out, stream);
  });
}

}  // namespace tg::cuda
