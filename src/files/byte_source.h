#pragma once
// Random access to the bytes of a file or of memory. Files are read, never mapped: truncating a
// mapped file would kill the process.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "files/file.h"

namespace tg {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  const std::string& name() const { return name_; }  // for messages
  uint64_t size() const { return size_; }
  bool holds(uint64_t offset, uint64_t count) const {
    return count <= size_ && offset <= size_ - count;
  }
  // Reads exactly `count` bytes; the caller has checked holds(). Throws Error(io).
  virtual void read(uint64_t offset, void* to, size_t count) const = 0;
  std::string read(uint64_t offset, size_t count) const;

 protected:
  explicit ByteSource(std::string name) : name_(std::move(name)) {}
  uint64_t size_ = 0;

 private:
  std::string name_;
};

class FileSource final : public ByteSource {
 public:
  // Throws what File::open() throws.
  explicit FileSource(const std::string& path);
  using ByteSource::read;
  void read(uint64_t offset, void* to, size_t count) const override;
  // Updates the size of a file that has grown. Returns false, and changes nothing, if the file has
  // shrunk or its path no longer names it.
  bool grow();

 private:
  File file_;
};

// Refers to the bytes without copying them.
class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string_view bytes, std::string name)
      : ByteSource(std::move(name)), bytes_(bytes) {
    size_ = bytes.size();
  }
  using ByteSource::read;
  void read(uint64_t offset, void* to, size_t count) const override;

 private:
  std::string_view bytes_;
};

}  // namespace tg
