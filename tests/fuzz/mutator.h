#pragma once
// Random changes of valid files.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tg::fuzz {

class Mutator {
 public:
  // Equal seeds give equal mutations. Requires at least one file.
  Mutator(std::vector<std::string> files, uint64_t seed)
      : files_(std::move(files)), random_(seed) {}

  // One of the files with up to eight changes.
  std::string next();

 private:
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  const std::string& any_file() { return files_[below(files_.size())]; }
  std::string part_of(const std::string& bytes);
  void change(std::string& bytes);
  void put_number(std::string& bytes, size_t at);

  std::vector<std::string> files_;
  std::mt19937_64 random_;
};

}  // namespace tg::fuzz
