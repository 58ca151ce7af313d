#pragma once
// Owning file descriptor whose reads are complete: interrupted and partial system calls are
// retried, and errors name the file. All input files are opened here, so that an unreadable path
// has the same exit code in every role.
#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tg {

class File {
 public:
  // Opens a regular file. Throws Error(missing_input) if it does not exist, is not permitted, or is
  // a folder, pipe or device, and Error(io).
  static File open(const std::string& path);
  // Opens a regular file, a pipe or a device, for read_some() only. Throws what open() throws.
  static File open_stream(const std::string& path);
  // Returns standard input, which is never closed.
  static File standard_input();
  // Creates an empty, unnamed file in `dir` to append to and to read: it disappears when it is
  // closed, even by a SIGKILL. Throws Error(cannot_create).
  static File temporary(const std::string& dir);
  // Creates an empty file in memory; `name` shows in /proc. Returns nullopt if the kernel refuses.
  static std::optional<File> in_memory(const std::string& name);

  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  std::int64_t size() const { return version().size; }  // current size in bytes
  // Changes when the file is written to or replaced.
  struct Version {
    std::int64_t size = 0, inode = 0, modified_ns = 0;
    bool operator==(const Version&) const = default;
  };
  Version version() const;
  // Returns whether the path still names this file.
  bool has_name() const;
  // Asks the kernel to read these bytes into the page cache, without blocking.
  void prefetch(std::int64_t offset, std::int64_t bytes) const;
  // Reads up to bytes.size() bytes from `offset`, fewer only at the end of the file. Thread-safe.
  // Throws Error(io).
  std::int64_t read_at(std::int64_t offset, std::span<std::byte> bytes) const;
  // Runs one read() of a file or pipe: at most bytes.size() bytes, 0 at the end. Throws Error(io).
  std::int64_t read_some(std::span<char> bytes);
  // Appends to a temporary file. Throws Error(io) on a full disk.
  void append(std::span<const std::byte> bytes);

 private:
  File(std::string path, int descriptor, bool owned);
  struct stat status() const;

  std::string path_;
  int descriptor_;
  bool owned_;
};

// Reads a small regular file (at most `limit` bytes). Throws Error(missing_input), Error(bad_data)
// if it is larger, and Error(io).
std::string read_whole_file(const std::string& path, std::int64_t limit);

}  // namespace tg
