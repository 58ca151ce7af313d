#pragma once
// What a pass without gradients may leave out, and what it can reuse of earlier passes.
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tg {

// Positions [from, to) of every row.
struct Positions {
  std::int64_t from, to;
  std::int64_t count() const { return to - from; }
};

// Keys and values of one layer [B, capacity, KV, hd], of the tokens so far.
struct KvCache {
  at::Tensor k, v;
};

// What decoding token by token keeps between passes.
struct DecodeCache {
  std::vector<KvCache> layers;
  std::int64_t capacity = 0;  // tokens
  std::int64_t length = 0;    // tokens so far
  at::Tensor last_ids;        // [B, at most 2] int64, undefined before the first token
};

// One layer's share of it. By default: a whole pass, as in training.
struct InferencePass {
  // The last block's queries, attention output and MLP serve these positions alone.
  std::optional<Positions> only{};
  // The layer's cache, whose first `cached` tokens precede the pass's own.
  KvCache* cache = nullptr;
  std::int64_t cached = 0;

  // The rows of x [B, T, …] that `only` keeps.
  at::Tensor rows(const at::Tensor& x) const {
    return only ? x.narrow(1, only->from, only->count()) : x;
  }
};

}  // namespace tg
