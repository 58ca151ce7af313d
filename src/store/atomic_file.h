#pragma once
// A file that is there whole or not at all: bytes go to a temporary beside it, commit() makes them
// durable and renames. Whatever fails before, the old file stays and the temporary is removed; only
// a SIGKILL leaves PATH.tmp.PID behind.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/leftover.h"

namespace tg {

class AtomicFile {
 public:
  // Errors: cannot_create; io where the disk is full or broken.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Tells report_progress() of the bytes, part by part. Errors: io
  void write(const void* bytes, size_t count);
  // fsync, rename, fsync of the folder. Errors: io, cannot_create (the path is a folder).
  void commit();

 private:
  [[noreturn]] void fail_io(const char* doing, int error);

  std::string path_;
  std::string temporary_;
  std::optional<Leftover> leftover_;
  int fd_ = -1;
  size_t unsynced_ = 0;  // bytes since the last fdatasync
};

void write_file_atomically(const std::string& path, std::string_view bytes);
// Makes renames and new names inside the folder durable. Errors: io.
void sync_folder(const std::string& folder);

}  // namespace tg
