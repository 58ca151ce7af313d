#pragma once
// Token shards: 256 little-endian int32 (20240520, 1, n), then n uint16 token ids. A ShardSet is
// all shards of one split in the order of their names, also seen as one endless stream of tokens.
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/file.h"

namespace tg {

inline constexpr std::int32_t shard_magic = 20240520;
inline constexpr std::int32_t shard_version = 1;
inline constexpr std::int64_t shard_header_ints = 256;
inline constexpr std::int64_t shard_header_bytes = 4 * shard_header_ints;

// Reading is const and safe from any number of threads at once.
class ShardSet {
 public:
  // DIR/fineweb_{split}_*.bin; every header and file size is checked here, token ids as they are
  // read. Errors: missing_input (no such file), bad_data (header, size, no tokens).
  ShardSet(const std::string& dir, std::string_view split, int vocab_size);

  const std::string& pattern() const { return pattern_; }
  int count() const { return static_cast<int>(paths_.size()); }
  const std::string& path(int shard) const { return paths_[static_cast<std::size_t>(shard)]; }
  std::int64_t tokens(int shard) const;
  std::int64_t start(int shard) const { return starts_[static_cast<std::size_t>(shard)]; }
  std::int64_t total_tokens() const { return starts_.back(); }
  int vocab_size() const { return vocab_size_; }

  // Tokens [offset, offset + out.size()) of one shard. The range must lie within it.
  // Errors: bad_data (file cut short or replaced meanwhile, id >= vocab_size), io.
  void read(int shard, std::int64_t offset, std::span<std::uint16_t> out) const;
  // The same of all shards one after the other; the first follows the last, for ever. offset >= 0.
  void read_at(std::int64_t offset, std::span<std::uint16_t> out) const;

 private:
  std::shared_ptr<const File> open(int shard) const;

  std::string pattern_;
  std::vector<std::string> paths_;
  std::vector<std::int64_t> starts_;  // [count + 1] first token of each shard; the last: all tokens
  int vocab_size_;
  mutable std::mutex mutex_;
  mutable std::deque<std::pair<int, std::shared_ptr<const File>>> open_;  // newest first
};

}  // namespace tg
