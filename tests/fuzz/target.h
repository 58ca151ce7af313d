#pragma once
// A fuzz target is a program around one reader of files from outside: NAME_fuzz.cpp defines seeds()
// and read(), reader.cpp makes libFuzzer's entry of them, and libFuzzer or driver.cpp calls that.
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tg::fuzz {

// Small valid files, from which mutations begin.
std::vector<std::string> seeds();
// Reads such a file of any bytes. It may refuse them by an Error with usage, bad_data or config and
// one line; any other exception is a finding.
void read(std::string_view bytes);

// Fails an assertion if a read() allocates more than largest_allocation(its bytes) at once.
void note_allocation(size_t size);
// 16 MiB, which holds the readers' constant buffers, and 64 bytes for each of the file's.
constexpr size_t largest_allocation(size_t bytes) {
  return (16 << 20) + 64 * bytes;
}

// A file for readers that take a path, in a folder of its own, which goes with it.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& name = "file");
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }
  std::string folder() const { return folder_.string(); }
  // Replaces its content.
  void put(std::string_view bytes);

 private:
  std::filesystem::path folder_;
  std::string path_;
  int descriptor_;
};

std::string file_bytes(const std::string& path);
// Bytes of tests/fixtures/NAME.
std::string fixture(const std::string& name);

}  // namespace tg::fuzz
