#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

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
  void truncate(std::int64_t size);
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

}  // namespace tg
