#pragma once
// A file of which a reader sees the old content or the new one: bytes are written to PATH.tmp.PID,
// and commit() makes them durable and renames. Where something fails before that, the old file is
// unchanged.
#include <cstddef>
#include <string>
#include <string_view>

#include "base/file_writer.h"

namespace tg {

class AtomicFile {
 public:
  // Errors: cannot_create; io where the disk is full or broken.
  explicit AtomicFile(const std::string& path);

  // Calls report_progress() with the bytes of each part. Errors: io.
  void write(const void* bytes, size_t count);
  // fsync, rename, fsync of the folder. Errors: io, cannot_create (the path is a folder).
  void commit();

 private:
  // Fails with errno unless `done`.
  void require(bool done, const char* doing) const;

  FileWriter file_;
  size_t unsynced_ = 0;  // bytes since the last fdatasync
};

void write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace tg
