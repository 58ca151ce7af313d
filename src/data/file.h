#pragma once
// An owned file descriptor. Reads and writes repeat partial system calls; errors name the file.
#include <cstdint>
#include <span>
#include <string>

namespace tg {

class File {
 public:
  // Errors: missing_input (not there, no permission, a directory).
  static File open(const std::string& path);
  // Creates or empties `path`. Errors: cannot_create.
  static File create(const std::string& path);
  // The standard input; never closed.
  static File standard_input();

  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  std::int64_t size() const;  // bytes, now
  // Differs after the file is written to or replaced.
  struct Version {
    std::int64_t size = 0, inode = 0, modified_ns = 0;
    bool operator==(const Version&) const = default;
  };
  Version version() const;
  // Asks the kernel to read these bytes into the page cache; does not block.
  void prefetch(std::int64_t offset, std::int64_t bytes) const;
  // Up to bytes.size() bytes from `offset`; fewer only at the end of the file. Safe from any
  // thread. Errors: io.
  std::int64_t read_at(std::int64_t offset, std::span<std::byte> bytes) const;
  // One read() of a file or pipe: at most bytes.size() bytes, 0 at the end. Errors: io.
  std::int64_t read_some(std::span<char> bytes);
  // Errors: io (disk full included).
  void write(std::span<const std::byte> bytes);
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  void sync();

 private:
  File(std::string path, int descriptor, bool owned);
  std::string path_;
  int descriptor_;
  bool owned_;
};

// The whole of a small file (at most `limit` bytes). Errors: missing_input, bad_data (larger), io.
std::string read_whole_file(const std::string& path, std::int64_t limit);
// Makes renames in `directory` durable. Ignores errors: some file systems cannot.
void sync_directory(const std::string& directory);

}  // namespace tg
