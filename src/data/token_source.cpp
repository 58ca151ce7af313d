#include "data/token_source.h"

#include <algorithm>

namespace tg {

int shard_at(const TokenSource& source, std::int64_t position) {
  int shard = 0;
  while (shard + 1 < source.count() && source.start(shard + 1) <= position) ++shard;
  return shard;
}

StreamPosition position_in(const TokenSource& source, std::int64_t stream_position) {
  // All tokens of a pass, unless it has more than stream_position.
  const auto all = source.tokens_up_to(stream_position + 1);
  const auto position = all > stream_position ? stream_position : stream_position % all;
  const int shard = shard_at(source, position);
  return {.pass_begin = stream_position - position,
          .shard = shard,
          .begin = position - source.start(shard)};
}

std::int64_t tokens_up_to(const TokenSource& source, int shard, std::int64_t limit) {
  return source.count() == 1 ? source.tokens_up_to(limit) : std::min(limit, source.tokens(shard));
}

}  // namespace tg
