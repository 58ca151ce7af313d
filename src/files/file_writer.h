#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/remove_on_exit.h"

namespace tg {

// Writes a file that gets its name only when it is complete: bytes go to `temporary`, a path in the
// same folder, and rename() renames that to `path`. Until then the destructor and the end of the
// program remove the temporary; only a SIGKILL leaves it there, for remove_abandoned(). What fails
// returns false with errno, for the caller's own message.
class FileWriter {
 public:
  FileWriter(std::string path, std::string temporary);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  const std::string& path() const { return path_; }
  const std::string& temporary() const { return temporary_; }
  bool is_open() const { return descriptor_ >= 0; }

  // Creates the temporary, in place of one that a killed process left.
  [[nodiscard]] bool create();
  [[nodiscard]] bool write(const void* bytes, std::size_t count);
  // Overwrites; the next write() continues where the last one ended.
  [[nodiscard]] bool write_at(std::int64_t offset, const void* bytes, std::size_t count);
  [[nodiscard]] bool sync_data();  // fdatasync
  [[nodiscard]] bool sync();       // fsync
  // The descriptor is gone either way. Network file systems may report a full disk only here.
  [[nodiscard]] bool close();
  [[nodiscard]] bool rename();

 private:
  std::string path_, temporary_;
  std::optional<RemoveOnExit> remove_on_exit_;
  int descriptor_ = -1;
};

// Removes a FileWriter's temporary if its writer was killed → whether it did. A living one holds a
// lock on it, also on another host or in another container; where the file system has no locks,
// nothing is removed.
bool remove_abandoned(const std::string& temporary);

// Writes to the end of a file or pipe → the bytes written: fewer than `count`, with errno, where it
// fails.
std::size_t write_fully(int descriptor, const void* bytes, std::size_t count);

}  // namespace tg
