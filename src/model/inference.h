#pragma once
// Inputs of inference passes: the positions that are scored and the KV cache.
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

// Keys and values of one layer call [B, capacity, KV, hd], for the tokens so far.
struct KvCache {
  at::Tensor k, v;
};

// State of token-by-token decoding.
struct DecodeCache {
  std::vector<KvCache> calls{};
  std::int64_t capacity = 0;       // tokens
  std::int64_t context = 0;        // tokens that attention spans; sets RoPE
  std::int64_t length = 0;         // tokens so far
  std::int64_t segment_begin = 0;  // the first token that queries attend to
  at::Tensor last_ids{};           // [B, at most 2] int64, undefined before the first token

  // Appends ids [B, n] int64.
  void add(const at::Tensor& ids_bn) {
    const auto so_far = last_ids.defined() ? at::cat({last_ids, ids_bn}, 1) : ids_bn;
    last_ids = so_far.slice(1, -2);
    length += ids_bn.size(1);
  }
  // Begins a segment at the next token: its queries attend to none of the tokens so far, whose keys
  // and values need not be in the cache.
  void begin_segment() { segment_begin = length; }
  void clear() {
    length = segment_begin = 0;
    last_ids = at::Tensor();
  }
};

}  // namespace tg
