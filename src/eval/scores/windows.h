#pragma once
// Windows of the sliding-window evaluation: the tokens that the model reads, and which of them are
// scored.
#include <cstdint>
#include <span>
#include <vector>

namespace tg {

// The model reads `length` tokens from `begin` on, and the predictions at positions [from, to) are
// scored.
struct Window {
  std::int64_t begin = 0, from = 0, to = 0;
  bool operator==(const Window&) const = default;
};

struct WindowOptions {
  std::int64_t length = 0, stride = 0;
  // The reference implementation's windows: one begins at every multiple of `stride` with at least
  // `least` tokens left; those at the end are shorter, and each scores its last `stride` tokens, so
  // that the last tokens are scored repeatedly.
  bool rescore_tail = false;
  std::int64_t least = 1;
};

// Windows over `predictions` ≥ 1 tokens: one begins at every multiple of `stride`; the first scores
// all of its tokens, each later one those after its predecessor's, so that every token is scored
// once, with at least length − stride tokens of context except at the beginning. The last window
// may extend past the end, padded.
std::vector<Window> sliding_windows(std::int64_t predictions, const WindowOptions& options);

// The range of rank `rank`: items ⌊n·rank/W⌋ to ⌊n·(rank + 1)/W⌋.
auto rank_range(const auto& items, int rank, int world_size) {
  const auto count = std::size(items), ranks = static_cast<std::size_t>(world_size);
  const auto first = count * static_cast<std::size_t>(rank) / ranks;
  const auto last = count * static_cast<std::size_t>(rank + 1) / ranks;
  return std::span(items).subspan(first, last - first);
}

// A batch: consecutive windows, one stride apart, that score the same positions.
struct WindowBatch {
  Window first;
  std::int64_t rows = 0;
};
// Groups windows into batches, in order, of at most `most_rows` windows each.
std::vector<WindowBatch> batch_windows(std::span<const Window> windows, std::int64_t stride,
                                       std::int64_t most_rows);

}  // namespace tg
