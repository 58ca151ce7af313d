#pragma once
// The sizes that a model computes with. GPUs are slow at rows that are no multiples of 16 bytes,
// and most kernels refuse them: there the copies that GEMMs read, and the activations, are wider
// than the settings say. What is added is zero and stays zero: it changes no result. Parameters,
// their gradients and all files have the sizes of the settings.
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "config/settings.h"

namespace tg {

// The sizes that a model's settings ask for; ComputeSizes are the sizes that it computes with.
struct ModelShape {
  std::int64_t vocab = 0, dim = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t rope_dims = 0;  // rotated channels of a head
  std::int64_t hidden = 0;     // channels of the MLP
};

ModelShape model_shape(const ModelConfig& config);

// Sizes are rounded up to multiples of these; 1 leaves them as they are.
struct Padding {
  std::int64_t vocab = 1;     // rows of the heads
  std::int64_t channels = 1;  // MODEL_DIM, the MLP's hidden channels, a head and its rotated half
};
// None on the CPU. On a GPU PAD_VOCAB=auto pads the vocabulary, and half precision the channels.
Padding choose_padding(PadVocab vocab, at::Device device, at::ScalarType compute);

// Channels [from, from + count) of a head are [to, to + count) of the padded one.
struct ChannelRun {
  std::int64_t from, to, count;
};

struct ComputeSizes {
  std::int64_t vocab, dim, hidden;
  std::int64_t head_dim, half_rope_dims;
  // A query or key head. Each rotated half is padded on its own, first with channels that RoPE
  // leaves alone.
  std::vector<ChannelRun> qk_runs;
  std::vector<ChannelRun> v_runs;  // a value head, and the attention's output
};
ComputeSizes compute_sizes(const ModelShape& shape, const Padding& padding);

}  // namespace tg
