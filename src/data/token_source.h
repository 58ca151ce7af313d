#pragma once
// Tokens of one split, from shards, text or a generator, as one endless stream and as the shards
// that store it.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "data/ids.h"

namespace tg {

// Thread-safe source of tokens.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  virtual const std::string& pattern() const = 0;  // origin, for log lines and errors
  // Identifies the content, such as "3 shards, 90000 tokens, digest 0123456789abcdef": independent
  // of its location, and different for other data. Never waits for tokens. Throws
  // Error(missing_input) and Error(io).
  virtual std::string identity() const = 0;
  // Returns the number of shards.
  virtual int count() const { return 1; }
  virtual std::string path(int /*shard*/) const { return pattern(); }
  virtual std::int64_t tokens(int shard) const = 0;
  virtual std::int64_t start(int /*shard*/) const { return 0; }  // position in the stream
  // Returns min(limit, tokens of one pass). A source that produces tokens on demand produces at
  // most `limit`.
  virtual std::int64_t tokens_up_to(std::int64_t limit) const = 0;
  // Returns the tokens of one pass; nullopt while unknown. Never blocks.
  virtual std::optional<std::int64_t> known_tokens() const {
    return tokens_up_to(std::numeric_limits<std::int64_t>::max());
  }

  // Bytes of an id in memory, 2 or 4: batches store ids of this width.
  virtual int id_bytes() const { return sizeof(NarrowId); }
  // Reads as many tokens of the stream as `out` has, from `offset` >= 0 on; the stream repeats
  // after its last token. `out` is of the width id_bytes(), or wider. Throws Error(bad_data),
  // Error(missing_input) and Error(io).
  virtual void read_at(std::int64_t offset, const MutableIds& out) const = 0;
};

// Position in a source's endless stream.
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
