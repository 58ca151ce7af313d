#pragma once
// Shards with known tokens, and reads of an order over them.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/token_order.h"
#include "tests/data/shards.h"

namespace tg::test {

using Tokens = std::vector<std::uint16_t>;

// Writes one shard of each size. Token i of the split is i.
struct Corpus {
  explicit Corpus(const std::vector<int>& sizes, const std::string& split = "train") {
    int first = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      shards.push_back(counting(sizes[i], first));
      first += sizes[i];
      write_file(dir / fmt::format("fineweb_{}_{:06}.bin", split, i), shard_bytes(shards.back()));
      all.insert(all.end(), shards.back().begin(), shards.back().end());
    }
  }
  TempDir dir;
  std::vector<Tokens> shards;
  Tokens all;
};

// Returns the tokens of the order's next micro-batch; empty if the rank has none.
inline Tokens next_of(TokenOrder& order) {
  const auto place = order.advance();
  if (!place) return {};
  Tokens out(static_cast<std::size_t>(place->tokens()));
  std::span rest(out);
  for (const auto& span : place->spans) {
    const auto tokens = static_cast<std::size_t>(span.tokens);
    order.read(span.begin, rest.first(tokens));
    rest = rest.subspan(tokens);
  }
  return out;
}

struct Stream {
  std::int64_t length, micro_batches;  // tokens per micro-batch; micro-batches per step
  int rank = 0, world = 1;
};

inline StreamOrder stream_order(const TokenSource& source, const Stream& options) {
  return {source, options.length, options.micro_batches, options.rank, options.world};
}

struct Strided {
  std::int64_t sequences, seq_len;  // per micro-batch
  int rank = 0, world = 1;
  bool repeat_first = false;
};

inline StridedOrder strided_order(const TokenSource& source, const Strided& options) {
  return {source, options.sequences * options.seq_len, options.rank, options.world,
          options.repeat_first};
}

}  // namespace tg::test
