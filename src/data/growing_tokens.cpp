#include "data/growing_tokens.h"

#include <algorithm>
#include <cassert>

namespace tg {
namespace {

constexpr std::int64_t chunk_tokens = 1 << 16;

// How many of `tokens`, the first at position `within` of a chunk, are in that chunk.
std::size_t in_chunk(std::int64_t within, std::size_t tokens) {
  return std::min(tokens, static_cast<std::size_t>(chunk_tokens - within));
}

}  // namespace

void GrowingTokens::append(std::span<const std::uint16_t> tokens) {
  while (!tokens.empty()) {
    const std::int64_t within = size_ % chunk_tokens;
    if (within == 0) chunks_.push_back(std::make_unique<std::uint16_t[]>(chunk_tokens));
    const auto part = in_chunk(within, tokens.size());
    std::copy_n(tokens.begin(), part, chunks_.back().get() + within);
    tokens = tokens.subspan(part);
    size_ += static_cast<std::int64_t>(part);
  }
}

void GrowingTokens::copy(std::int64_t from, std::span<std::uint16_t> out) const {
  assert(from >= 0 && from + std::ssize(out) <= size_);
  while (!out.empty()) {
    const std::int64_t within = from % chunk_tokens;
    const auto part = in_chunk(within, out.size());
    const auto& chunk = chunks_[static_cast<std::size_t>(from / chunk_tokens)];
    std::copy_n(chunk.get() + within, part, out.begin());
    out = out.subspan(part);
    from += static_cast<std::int64_t>(part);
  }
}

}  // namespace tg
