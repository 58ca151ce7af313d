#include "checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "files/byte_source.h"

namespace tg {
namespace {

constexpr size_t kPart = 4 << 20;  // bytes hashed at a time, while they are in the CPU cache

// A file that is hashed as it is read. Reads must be sequential, from the first byte on.
class HashedFile final : public ByteSource {
 public:
  explicit HashedFile(const std::string& path) : ByteSource(path), file_(path) {
    size_ = file_.size();
  }
  using ByteSource::read;
  void read(uint64_t offset, void* to, size_t count) const override {
    assert(offset == hashed_);
    auto* at = static_cast<char*>(to);
    while (count > 0) {
      const auto part = std::min(count, kPart);
      file_.read(hashed_, at, part);
      xxh3_.add(at, part);
      hashed_ += part;
      at += part;
      count -= part;
    }
  }
  // Returns the XXH3 of the bytes read so far.
  std::uint64_t xxh3() const { return xxh3_.value(); }

 private:
  const FileSource file_;
  mutable Xxh3 xxh3_;
  mutable uint64_t hashed_ = 0;
};

NamedTensors read_file(const HashedFile& file, const FileDigest& expected,
                       const NameFilter& wanted) {
  REQUIRE(file.size() == expected.bytes, ExitCode::bad_data, "{}: expected {} bytes, found {}",
          file.name(), expected.bytes, file.size());
  auto tensors = read_safetensors(file, nullptr, wanted);
  REQUIRE(file.xxh3() == expected.xxh3, ExitCode::bad_data,
          "{}: bytes have changed since it was written (expected XXH3 {:016x}, found {:016x})",
          file.name(), expected.xxh3, file.xxh3());
  return tensors;
}

}  // namespace

NamedTensors read_checkpoint(const std::string& folder, const Manifest& manifest,
                             const NameFilter& wanted) {
  std::deque<HashedFile> files;
  for (const auto& [name, digest] : manifest.files) {
    const auto path = folder + "/" + name;
    std::error_code ignored;
    REQUIRE(std::filesystem::is_regular_file(path, ignored), ExitCode::bad_data,
            "{}: expected a file of {} bytes, found none", path, digest.bytes);
    files.emplace_back(path);
  }
  NamedTensors all;
  for (std::size_t i = 0; i < files.size(); ++i) {
    auto tensors = read_file(files[i], manifest.files[i].digest, wanted);
    std::ranges::move(tensors, std::back_inserter(all));
  }
  return all;
}

}  // namespace tg
