#pragma once
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "files/json_file.h"

namespace tg {

// Append-only file of records: each is passed to the system in one write, and is in the file as a
// whole or not at all. On a full disk records are lost, with one warning, and the run continues.
class AppendFile {
 public:
  // Creates the file, or appends to it. `record` is the word for a record in the warning. Throws
  // Error(cannot_create).
  AppendFile(std::string path, std::string record);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void write(std::string_view record);
  // Truncates the file to its first `size` bytes; keeps it as it is if that fails.
  void truncate(std::int64_t size) {
    if (::ftruncate(fd_, size) == 0) size_ = size;
  }
  std::int64_t size() const { return size_; }
  int descriptor() const { return fd_; }  // for reading
  // Updates the path for messages after the open file was renamed.
  void renamed(std::string path) { path_ = std::move(path); }

 private:
  std::string path_, record_;
  int fd_ = -1;
  std::int64_t size_ = 0;  // up to the last whole record
  bool warned_ = false;
};

// JSON Lines file, as an AppendFile, for other programs: numbers round-trip, and non-finite
// numbers, which JSON does not have, become null. An incomplete last line of a killed run is
// truncated when the file is opened again.
class JsonLines {
 public:
  // Creates the file, or appends to it. Throws Error(cannot_create).
  explicit JsonLines(std::string path);

  void write(const nlohmann::json& value) { file_.write(json_text(value, -1) + "\n"); }
  // Updates the path for messages after the open file was renamed.
  void renamed(std::string path) { file_.renamed(std::move(path)); }

 private:
  AppendFile file_;
};

// Truncates a JSON Lines file after the last line for which `is_last` is true. Returns whether
// there is one; otherwise the file is unchanged. Throws Error(io).
bool truncate_after(const std::string& path,
                    const std::function<bool(const nlohmann::json&)>& is_last);

}  // namespace tg
