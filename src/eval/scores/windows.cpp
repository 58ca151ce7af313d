#include "eval/scores/windows.h"

#include <algorithm>
#include <cassert>

namespace tg {

std::vector<Window> sliding_windows(std::int64_t predictions, const WindowOptions& options) {
  assert(predictions > 0 && options.stride > 0 && options.length > 0);
  std::vector<Window> windows;
  std::int64_t scored = 0;  // number of tokens scored by the windows so far
  for (std::int64_t begin = 0; begin < predictions; begin += options.stride) {
    const auto to = std::min(options.length, predictions - begin);
    if (options.rescore_tail) {
      if (begin > 0 && to < options.least) break;
      const auto from = begin == 0 ? 0 : std::max<std::int64_t>(to - options.stride, 0);
      windows.push_back({begin, from, to});
    } else {
      if (scored == predictions) break;
      windows.push_back({begin, scored - begin, to});
      scored = begin + to;
    }
  }
  return windows;
}

std::vector<WindowBatch> batch_windows(std::span<const Window> windows, std::int64_t stride,
                                       std::int64_t most_rows) {
  std::vector<WindowBatch> batches;
  for (const auto& window : windows) {
    if (!batches.empty()) {
      auto& [first, rows] = batches.back();
      const bool fits = window.from == first.from && window.to == first.to;
      if (fits && rows < most_rows && window.begin == first.begin + rows * stride) {
        ++rows;
        continue;
      }
    }
    batches.push_back({window, 1});
  }
  return batches;
}

}  // namespace tg
