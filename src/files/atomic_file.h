#pragma once
// File whose readers see the old content or the new one: bytes are written to PATH.tmp.PID, and
// commit() makes them durable and renames. If something fails before that, the old file is
// unchanged.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "files/file_digest.h"
#include "files/file_writer.h"
#include "files/xxh3.h"

namespace tg {

class AtomicFile {
 public:
  // Throws Error(cannot_create), also if the path is a folder, and Error(io) if the disk is full or
  // broken. A long computation can therefore test its output path first with an AtomicFile that it
  // does not commit.
  explicit AtomicFile(const std::string& path);

  // Calls report_progress() with the bytes of each part. Throws Error(io).
  void write(const void* bytes, size_t count);
  // Runs fsync, rename and fsync of the folder. Returns the digest of what was written. Throws
  // Error(io).
  FileDigest commit();

 private:
  // Throws Error(io) with errno unless `done`.
  void require(bool done, const char* doing) const;

  FileWriter file_;
  Xxh3 xxh3_;
  std::uint64_t bytes_ = 0;
  size_t unsynced_ = 0;  // bytes since the last fdatasync
};

// Removes the temporary files that killed processes left in the folder: NAME.tmp.PID with
// `is_own(NAME)` that no process has open for writing. Files that cannot be removed stay.
void remove_abandoned_files(const std::string& folder,
                            const std::function<bool(std::string_view name)>& is_own);

void write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace tg
