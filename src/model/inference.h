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

// Keys and values of one visit [B, capacity, KV, hd], of the tokens so far.
struct KvCache {
  at::Tensor k, v;
};

// What decoding token by token keeps between passes.
struct DecodeCache {
  std::vector<KvCache> visits;
  std::int64_t capacity = 0;  // tokens
  std::int64_t length = 0;    // tokens so far
  at::Tensor last_ids;        // [B, at most 2] int64, undefined before the first token
};

}  // namespace tg
