#include "eval/ttt_chunks.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tg {

std::vector<std::vector<Window>> windows_of_chunks(std::int64_t predictions,
                                                   const WindowOptions& options,
                                                   std::int64_t chunk_tokens) {
  const auto chunks = (predictions + chunk_tokens - 1) / chunk_tokens;
  std::vector<std::vector<Window>> windows(static_cast<std::size_t>(chunks));
  for (const auto& window : sliding_windows(predictions, options)) {
    const auto chunk = std::min((window.begin + window.from) / chunk_tokens, chunks - 1);
    windows[static_cast<std::size_t>(chunk)].push_back(window);
  }
  return windows;
}

ChunkShare share_of_chunk(const ChunkRows& rows, std::int64_t chunk, int rank, int world_size) {
  const auto begin = chunk * rows.chunk_tokens;
  const auto count = (std::min(begin + rows.chunk_tokens, rows.predictions) - begin) / rows.length;
  const auto first_of = [&](std::int64_t r) { return count * r / world_size; };
  ChunkShare share{.begin = begin + first_of(rank) * rows.length,
                   .rows = first_of(rank + 1) - first_of(rank)};
  for (int r = 0; r < world_size; ++r)
    share.most_rows = std::max(share.most_rows, first_of(r + 1) - first_of(r));
  return share;
}

double chunk_lr(double lr, std::int64_t chunk, std::int64_t chunks) {
  const auto last = static_cast<double>(std::max<std::int64_t>(chunks - 1, 1));
  return lr * 0.5 * (1 + std::cos(std::numbers::pi * static_cast<double>(chunk) / last));
}

}  // namespace tg
