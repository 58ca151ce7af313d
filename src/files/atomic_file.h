#pragma once
// A file of which a reader sees the old content or the new one: bytes are written to PATH.tmp.PID,
// and commit() makes them durable and renames. Where something fails before that, the old file is
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
  // Errors: cannot_create (also where the path is a folder); io where the disk is full or broken.
  // So who has long to work first tries the place by one that it does not write.
  explicit AtomicFile(const std::string& path);

  // Calls report_progress() with the bytes of each part. Errors: io.
  void write(const void* bytes, size_t count);
  // fsync, rename, fsync of the folder → of what was written. Errors: io.
  FileDigest commit();

 private:
  // Fails with errno unless `done`.
  void require(bool done, const char* doing) const;

  FileWriter file_;
  Xxh3 xxh3_;
  std::uint64_t bytes_ = 0;
  size_t unsynced_ = 0;  // bytes since the last fdatasync
};

// Removes what killed processes left of AtomicFiles in the folder, of those whose name
// `is_own(NAME)`: NAME.tmp.PID that no process writes to. What cannot be removed stays.
void remove_abandoned_files(const std::string& folder,
                            const std::function<bool(std::string_view name)>& is_own);

void write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace tg
