#pragma once
// A file descriptor that closes itself, with whole reads: what the system call did not do in one go
// is asked for again, and errors name the file. All input is opened here, so that a path that
// cannot be read has the same exit code whatever it was to be read as.
#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tg {

class File {
 public:
  // A regular file. Errors: missing_input (not there, no permission, a folder, a pipe, a device);
  // io.
  static File open(const std::string& path);
  // The same, or a pipe or a device, for read_some() alone.
  static File open_stream(const std::string& path);
  // The standard input; never closed.
  static File standard_input();
  // An empty file in `dir` without a name, to append to and to read: it is gone when it is closed,
  // even by a SIGKILL. Errors: cannot_create.
  static File temporary(const std::string& dir);
  // The same in memory; `name` shows in /proc. Empty where the kernel refuses it.
  static std::optional<File> in_memory(const std::string& name);

  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  std::int64_t size() const;  // bytes, now
  // Differs after the file is written to or replaced.
  struct Version {
    std::int64_t size = 0, inode = 0, modified_ns = 0;
    bool operator==(const Version&) const = default;
  };
  Version version() const;
  // Whether the path still names this file.
  bool has_name() const;
  // Asks the kernel to read these bytes into the page cache; does not block.
  void prefetch(std::int64_t offset, std::int64_t bytes) const;
  // Up to bytes.size() bytes from `offset`; fewer only at the end of the file. Safe from any
  // thread. Errors: io.
  std::int64_t read_at(std::int64_t offset, std::span<std::byte> bytes) const;
  // One read() of a file or pipe: at most bytes.size() bytes, 0 at the end. Errors: io.
  std::int64_t read_some(std::span<char> bytes);
  // Writes to the end of a temporary file. Errors: io (disk full).
  void append(std::span<const std::byte> bytes);

 private:
  File(std::string path, int descriptor, bool owned);
  struct stat status() const;

  std::string path_;
  int descriptor_;
  bool owned_;
};

// The whole of a small regular file (at most `limit` bytes). Errors: missing_input, bad_data
// (larger), io.
std::string read_whole_file(const std::string& path, std::int64_t limit);

}  // namespace tg
