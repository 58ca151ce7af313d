#include "model/padding.h"

#include <algorithm>

#include "config/derived.h"
#include "ops/pad.h"

namespace tg {

namespace {

// Appends a run, or extends the last run if they are contiguous.
void append(std::vector<ChannelRun>& runs, const ChannelRun& run) {
  if (run.count == 0) return;
  const auto continues = [&](const ChannelRun& last) {
    return last.from + last.count == run.from && last.to + last.count == run.to;
  };
  if (!runs.empty() && continues(runs.back()))
    runs.back().count += run.count;
  else
    runs.push_back(run);
}

// RoPE rotates channels i and half + i as a pair; padded: i and padded_half + i.
std::vector<ChannelRun> rotated_runs(std::int64_t head, std::int64_t half,
                                     std::int64_t padded_half) {
  const auto rotated = 2 * half, gap = padded_half - half, rest = head - rotated;
  const auto in_first = std::min(rest, gap), in_second = std::min(rest - in_first, gap);
  const auto behind = rest - in_first - in_second;
  std::vector<ChannelRun> runs;
  append(runs, {0, 0, half});
  append(runs, {rotated, half, in_first});
  append(runs, {half, padded_half, half});
  append(runs, {rotated + in_first, padded_half + half, in_second});
  append(runs, {head - behind, 2 * padded_half, behind});
  return runs;
}

}  // namespace

Padding choose_padding(PadVocab vocab, at::Device device, at::ScalarType compute) {
  const bool pads_vocab = device.is_cuda() && vocab == PadVocab::automatic;
  return {.vocab = pads_vocab ? 64 : 1, .channels = row_multiple(device, compute)};
}

ModelShape model_shape(const ModelConfig& config) {
  const auto qk = qk_head_dim(config);
  return {.vocab = config.vocab_size,
          .dim = config.model_dim,
          .heads = config.num_heads,
          .kv_heads = config.num_kv_heads,
          .head_dim = head_dim(config),
          .qk_head_dim = qk,
          .rope_dims = config.rope_dims > 0 ? config.rope_dims : qk,
          .hidden = mlp_hidden(config)};
}

ComputeSizes compute_sizes(const ModelShape& shape, const Padding& padding, bool rope_interleaved) {
  const auto half = shape.rope_dims / 2;
  const auto padded_half = rope_interleaved ? half : round_up(half, padding.channels);
  auto qk_runs = rotated_runs(shape.qk_head_dim, half, padded_half);
  const auto qk_end = qk_runs.back().to + qk_runs.back().count;
  const auto least = std::max({2 * padded_half, qk_end, shape.head_dim});
  return {.vocab = round_up(shape.vocab, padding.vocab),
          .dim = round_up(shape.dim, padding.channels),
          .hidden = round_up(shape.hidden, padding.channels),
          .head_dim = round_up(least, padding.channels),
          .half_rope_dims = padded_half,
          .qk_runs = std::move(qk_runs),
          .v_runs = {{0, 0, shape.head_dim}}};
}

}  // namespace tg
