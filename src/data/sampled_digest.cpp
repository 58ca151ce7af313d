#include "data/sampled_digest.h"

#include <vector>

namespace tg {
namespace {

// Checkpoints store such digests: changing these constants would invalidate them.
constexpr std::int64_t block_bytes = 16 << 10;
constexpr std::int64_t max_blocks = 8;

std::vector<std::int64_t> block_offsets(std::int64_t size) {
  std::vector<std::int64_t> offsets;
  if (size <= max_blocks * block_bytes) {
    for (std::int64_t at = 0; at < size; at += block_bytes) offsets.push_back(at);
  } else {
    for (std::int64_t i = 0; i < max_blocks; ++i)
      offsets.push_back(i * (size - block_bytes) / (max_blocks - 1));
  }
  return offsets;
}

}  // namespace

void SampledDigest::add(const File& file) {
  const std::int64_t size = file.size();
  xxh3_.add(&size, sizeof size);
  const auto offsets = block_offsets(size);
  for (const auto at : offsets) file.prefetch(at, block_bytes);  // wait once for all
  std::vector<std::byte> block(block_bytes);
  for (const auto at : offsets)
    xxh3_.add(block.data(), static_cast<std::size_t>(file.read_at(at, block)));
}

}  // namespace tg
