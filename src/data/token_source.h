#pragma once
// The tokens of one split, wherever they come from: shards, text, a generator. Seen as one endless
// stream, and as the parts that it is stored in.
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace tg {

// Reading is const and safe from any number of threads at once.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  virtual const std::string& pattern() const = 0;  // where it comes from, for lines and messages
  // Shards; one part unless a source has more.
  virtual int count() const { return 1; }
  virtual std::string path(int /*shard*/) const { return pattern(); }
  virtual std::int64_t tokens(int shard) const = 0;
  virtual std::int64_t start(int /*shard*/) const { return 0; }  // its first token in the stream
  // min(limit, tokens in all): a limit saves a source that makes its tokens from making them all.
  virtual std::int64_t tokens_up_to(std::int64_t limit) const = 0;
  // Tokens of one pass; nothing where that is not known yet.
  virtual std::optional<std::int64_t> known_tokens() const {
    return tokens_up_to(std::numeric_limits<std::int64_t>::max());
  }

  // Tokens [offset, offset + out.size()) of the stream; the first follows the last, for ever.
  // offset >= 0. Errors: bad_data, missing_input, io.
  virtual void read_at(std::int64_t offset, std::span<std::uint16_t> out) const = 0;
};

}  // namespace tg
