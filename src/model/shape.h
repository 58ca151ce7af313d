#pragma once
#include <cstdint>

#include "config/derived.h"
#include "config/settings.h"

namespace tg {

// The sizes that a model's settings ask for; those that it computes with are padding.h's.
struct ModelShape {
  std::int64_t vocab = 0, dim = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t rope_dims = 0;  // rotated channels of a head
  std::int64_t hidden = 0;     // channels of the MLP
};

inline ModelShape model_shape(const ModelConfig& config) {
  const auto head = head_dim(config);
  return {.vocab = config.vocab_size,
          .dim = config.model_dim,
          .heads = config.num_heads,
          .kv_heads = config.num_kv_heads,
          .head_dim = head,
          .rope_dims = config.rope_dims > 0 ? config.rope_dims : head,
          .hidden = mlp_hidden(config)};
}

}  // namespace tg
