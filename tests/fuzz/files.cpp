#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/fuzz/target.h"

namespace tg::fuzz {

ScratchFile::ScratchFile(const std::string& name) {
  std::string pattern = std::filesystem::temp_directory_path() / "train_gpt_fuzz_XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot create " + pattern);
  folder_ = pattern;
  path_ = folder_ / name;
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor_ < 0) throw std::runtime_error("cannot create " + path_);
}

ScratchFile::~ScratchFile() {
  ::close(descriptor_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void ScratchFile::put(std::string_view bytes) {
  const auto written = ::pwrite(descriptor_, bytes.data(), bytes.size(), 0);
  if (written != static_cast<ssize_t>(bytes.size()) || ::ftruncate(descriptor_, written) != 0)
    throw std::runtime_error("cannot write " + path_);
}

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string fixture(const std::string& name) {
  return file_bytes(TEST_DATA_DIR "/" + name);
}

}  // namespace tg::fuzz
