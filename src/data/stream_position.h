#pragma once
// Positions in a source's endless stream, by pass and shard.
#include <cstdint>

#include "data/token_source.h"

namespace tg {

struct StreamPosition {
  std::int64_t pass_begin = 0;  // in the stream
  int shard = 0;
  std::int64_t begin = 0;  // in the shard
};

// The shard of a position of the stream's first pass.
int shard_at(const TokenSource& source, std::int64_t position);
// Waits, in text, for the tokens before the position. Errors: what reading throws.
StreamPosition position_in(const TokenSource& source, std::int64_t stream_position);
// min(limit, the shard's tokens). Where there is only one shard, its end may not be known yet: then
// at most `limit` tokens are made.
std::int64_t tokens_up_to(const TokenSource& source, int shard, std::int64_t limit);

}  // namespace tg
