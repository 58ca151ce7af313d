#pragma once
// Tokens in chunks: grows without moving what it holds, which would need the memory twice. Not
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
  // Tokens [from, from + out.size()), all of them there.
  void copy(std::int64_t from, std::span<std::uint16_t> out) const;

 private:
  std::vector<std::unique_ptr<std::uint16_t[]>> chunks_;
  std::int64_t size_ = 0;
};

}  // namespace tg
