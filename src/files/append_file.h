#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tg {

// A file of records that grows at its end: each is passed to the system in one write, and is in the
// file as a whole or not at all. On a full disk records are lost, with one warning, and the run
// continues.
class AppendFile {
 public:
  // Creates the file, or appends to it. `record`: what one is called in the warning. Errors:
  // cannot_create.
  AppendFile(std::string path, std::string record);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void write(std::string_view record);
  // Cuts off what follows the first `size` bytes. Where that fails, it stays.
  void truncate(std::int64_t size);
  std::int64_t size() const { return size_; }
  int descriptor() const { return fd_; }  // for reading
  // The open file was renamed to this, for messages.
  void renamed(std::string path) { path_ = std::move(path); }

 private:
  std::string path_, record_;
  int fd_ = -1;
  std::int64_t size_ = 0;  // up to the last whole record
  bool warned_ = false;
};

}  // namespace tg
