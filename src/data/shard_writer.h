#pragma once
// Writes the shards of one split. Until commit() they are named NAME.tmp, which no reader accepts
// as a shard.
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "files/file_writer.h"

namespace tg {

// Returns the shards `prefix`_{train,val}_*.bin in `dir` and the files of a byte sidecar, sorted by
// name.
std::vector<std::string> find_shards(const std::string& dir, const std::string& prefix);

class ShardWriter {
 public:
  // Writes DIR/{prefix}_{split}_%06d.bin of shard_tokens tokens each, of `token_bytes` (2 or 4);
  // the last one may be shorter.
  ShardWriter(std::string dir, std::string prefix, std::string split, std::int64_t shard_tokens,
              int token_bytes);

  // append(), finish() and commit() throw Error(cannot_create) and Error(io) (disk full).
  // Takes stored tokens, token_bytes each.
  void append(std::span<const std::byte> tokens);
  // Completes the last shard and makes all durable.
  void finish() {
    if (is_open()) complete();
  }
  void commit();  // finish(), then renames the files to their final names

  // Returns the final names, in order, of all shards begun so far.
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  void open_next();
  void flush();
  void complete();
  FileWriter& last() { return files_.back(); }
  bool is_open() const { return !files_.empty() && files_.back().is_open(); }
  // Throws Error(io) with errno unless `done`.
  void require_written(bool done);

  std::string dir_, prefix_, split_;
  std::int64_t shard_tokens_;
  int token_bytes_;
  std::int64_t in_shard_ = 0;  // bytes of the last shard's tokens, including the buffer
  std::vector<std::byte> buffer_;
  std::list<FileWriter> files_;  // only the last one may be open
  std::vector<std::string> paths_;
};

}  // namespace tg
