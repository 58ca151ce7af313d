#pragma once
// Positions in a source's endless stream, by pass and shard.
#include <cstdint>

#include "data/token_source.h"

namespace tg {

struct StreamPosition {
  std::int64_t pass_begin = 0;  // stream position of the pass
  int shard = 0;
  std::int64_t begin = 0;  // position in the shard
};

// Returns the shard of a position in the stream's first pass.
int shard_at(const TokenSource& source, std::int64_t position);
// Waits, for a text source, for the tokens before the position. Throws what reading throws.
StreamPosition position_in(const TokenSource& source, std::int64_t stream_position);
// Returns min(limit, the shard's tokens). The end of a single shard may not be known yet: waits for
// at most `limit` tokens.
std::int64_t tokens_up_to(const TokenSource& source, int shard, std::int64_t limit);

}  // namespace tg
