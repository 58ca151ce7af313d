#pragma once
// Writes the shards of one split. Until commit() they are called NAME.tmp, which no reader takes
// for a shard.
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "files/file_writer.h"

namespace tg {

// The shards `prefix`_{train,val}_*.bin in `dir` and the files of a byte sidecar, in order of their
// names.
std::vector<std::string> find_shards(const std::string& dir, const std::string& prefix);

class ShardWriter {
 public:
  // DIR/{prefix}_{split}_%06d.bin of shard_tokens tokens each, the last one shorter.
  ShardWriter(std::string dir, std::string prefix, std::string split, std::int64_t shard_tokens);

  // Errors of all three: cannot_create, io (disk full).
  void append(std::span<const std::uint16_t> tokens);
  void finish();  // completes the last shard; all are durable then
  void commit();  // finish(), then gives the files their names

  // Final names, in order; every shard begun so far.
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  void open_next();
  void flush();
  void complete();
  FileWriter& last() { return files_.back(); }
  bool is_open() const { return !files_.empty() && files_.back().is_open(); }
  // Fails with errno unless `done`. Errors: io.
  void require_written(bool done);

  std::string dir_, prefix_, split_;
  std::int64_t shard_tokens_;
  std::int64_t in_shard_ = 0;  // of the last one, buffer included
  std::vector<std::uint16_t> buffer_;
  std::list<FileWriter> files_;  // only the last may be open
  std::vector<std::string> paths_;
};

}  // namespace tg
