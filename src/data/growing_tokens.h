#pragma once
// A growing array of tokens in chunks: a vector that reallocates would need twice the memory. Not
// thread-safe.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tg {

class GrowingTokens {
 public:
  std::int64_t size() const { return size_; }
  void append(std::span<const std::uint16_t> tokens);
  // Copies tokens [from, from + out.size()), which must exist.
  void copy(std::int64_t from, std::span<std::uint16_t> out) const;

 private:
  std::vector<std::unique_ptr<std::uint16_t[]>> chunks_;
  std::int64_t size_ = 0;
};

}  // namespace tg
