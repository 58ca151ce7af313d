#pragma once
// Writes the shards of one split. Until commit() they are NAME.tmp, so that a run that fails leaves
// nothing that a reader would take for a shard.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/file.h"

namespace tg {

// Files left by an earlier run that `prefix`_{train,val}_*.bin would be mixed up with.
std::vector<std::string> find_shards(const std::string& dir, const std::string& prefix);

class ShardWriter {
 public:
  // DIR/{prefix}_{split}_%06d.bin of shard_tokens tokens each, the last one shorter.
  ShardWriter(std::string dir, std::string prefix, std::string split, std::int64_t shard_tokens);
  ~ShardWriter();  // drops what was not committed
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Errors of all three: cannot_create, io (disk full).
  void append(std::span<const std::uint16_t> tokens);
  void finish();  // completes the last shard and flushes all to the disk
  void commit();  // finish(), then gives the files their names

  std::int64_t tokens() const { return tokens_; }
  // Final names, in order; every shard begun so far.
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  void open_next();
  void flush();
  void complete();

  std::string dir_, prefix_, split_;
  std::int64_t shard_tokens_;
  std::int64_t tokens_ = 0;    // of all shards
  std::int64_t in_shard_ = 0;  // of the open one, buffer included
  std::optional<File> file_;   // the open one
  std::vector<std::uint16_t> buffer_;
  std::vector<std::string> paths_;
  bool committed_ = false;
};

}  // namespace tg
