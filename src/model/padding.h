#pragma once
// Padded sizes of the computation. GPUs are slow at rows that are not multiples of 16 bytes, and
// most kernels reject them, so the copies that GEMMs read and the activations are padded with zeros
// that stay zero and change no result. Parameters, gradients and files keep the sizes of the
// settings.
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "config/settings.h"

namespace tg {

// Sizes according to the settings; ComputeSizes are the padded ones.
struct ModelShape {
  std::int64_t vocab = 0, dim = 0;
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t head_dim = 0;     // channels of a value head, and of attention's output
  std::int64_t qk_head_dim = 0;  // channels of a query or key head
  std::int64_t rope_dims = 0;    // rotated channels of a head
  std::int64_t hidden = 0;       // the MLP's hidden channels
};

ModelShape model_shape(const ModelConfig& config);

// Sizes are rounded up to multiples of these; 1: no padding.
struct Padding {
  std::int64_t vocab = 1;     // rows of the heads
  std::int64_t channels = 1;  // MODEL_DIM, the MLP's hidden channels, a head and its rotated half
};
// No padding on the CPU. On a GPU, PAD_VOCAB=auto pads the vocabulary, and half precision the
// channels.
Padding choose_padding(PadVocab vocab, at::Device device, at::ScalarType compute);

// Channels [from, from + count) of a head are [to, to + count) of the padded one.
struct ChannelRun {
  std::int64_t from, to, count;
};

struct ComputeSizes {
  std::int64_t vocab, dim, hidden;
  std::int64_t head_dim;  // of all heads, so that attention's kernels read one size
  std::int64_t half_rope_dims;
  // Runs of a query or key head. Each rotated half is padded separately, its padding filled first
  // with channels that RoPE does not rotate. Interleaved pairs need no such padding.
  std::vector<ChannelRun> qk_runs;
  std::vector<ChannelRun> v_runs;  // of a value head, and of attention's output
};
ComputeSizes compute_sizes(const ModelShape& shape, const Padding& padding,
                           bool rope_interleaved = false);

}  // namespace tg
