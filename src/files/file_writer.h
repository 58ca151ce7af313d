#pragma once
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/process_exit.h"

namespace tg {

// Writes a file that gets its name only when it is complete: bytes go to `temporary`, a path in the
// same folder, and rename() renames it to `path`. Until then the destructor and the exit of the
// program remove the temporary file; only a SIGKILL leaves it, for remove_abandoned(). Functions
// that fail return false with errno, so that the caller can word the message.
class FileWriter {
 public:
  FileWriter(std::string path, std::string temporary);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  const std::string& path() const { return path_; }
  const std::string& temporary() const { return temporary_; }
  bool is_open() const { return descriptor_ >= 0; }

  // Creates the temporary file, replacing one that a killed process left.
  [[nodiscard]] bool create();
  [[nodiscard]] bool write(const void* bytes, std::size_t count);
  // Overwrites bytes; the next write() continues at the end of the previous write().
  [[nodiscard]] bool write_at(std::int64_t offset, const void* bytes, std::size_t count);
  [[nodiscard]] bool sync_data() { return ::fdatasync(descriptor_) == 0; }
  [[nodiscard]] bool sync() { return ::fsync(descriptor_) == 0; }
  // Releases the descriptor even if it fails. Network file systems may report a full disk only
  // here.
  [[nodiscard]] bool close();
  [[nodiscard]] bool rename();

 private:
  std::string path_, temporary_;
  std::optional<RemoveOnExit> remove_on_exit_;
  int descriptor_ = -1;
};

// Removes a FileWriter's temporary file if its writer was killed; returns whether it did. A live
// writer holds a lock on it, even on another host or in another container; if the file system has
// no locks, nothing is removed.
bool remove_abandoned(const std::string& temporary);

// Writes to the end of a file or pipe. Returns the number of bytes written: fewer than `count`,
// with errno, on failure.
std::size_t write_fully(int descriptor, const void* bytes, std::size_t count);

}  // namespace tg
