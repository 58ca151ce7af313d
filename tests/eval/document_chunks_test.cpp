#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "eval/scores/document_batches.h"

namespace tg {
namespace {

std::vector<ChunkWindow> windows_of(std::int64_t predictions, const ChunkOptions& options) {
  std::vector<ChunkWindow> windows;
  for (std::int64_t chunk = 0; chunk < chunks_of_document(predictions, options); ++chunk)
    windows.push_back(chunk_window(predictions, chunk, options));
  return windows;
}

// Start, length, offset, scored.
TEST(ChunkWindows, AreTheReferences) {
  using Windows = std::vector<ChunkWindow>;
  EXPECT_EQ(windows_of(37, {48, 128}), (Windows{{0, 37, 0, 37}}));
  EXPECT_EQ(windows_of(300, {48, 128}), (Windows{{0, 48, 0, 48},
                                                 {0, 96, 48, 48},
                                                 {16, 128, 80, 48},
                                                 {64, 128, 80, 48},
                                                 {112, 128, 80, 48},
                                                 {160, 128, 80, 48},
                                                 {172, 128, 116, 12}}));
  EXPECT_EQ(windows_of(144, {48, 96}),
            (Windows{{0, 48, 0, 48}, {0, 96, 48, 48}, {48, 96, 48, 48}}));
}

TEST(ChunkWindows, ScoreEveryPredictionOnceAndFillTheRowButForTheLast) {
  const ChunkOptions all[] = {{1, 1}, {4, 4}, {4, 6}, {4, 16}, {16, 16}};
  for (const auto& options : all) {
    for (std::int64_t predictions = 1; predictions < 40; ++predictions) {
      std::int64_t next = 0;
      const auto chunks = chunks_of_document(predictions, options);
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        const auto window = chunk_window(predictions, chunk, options);
        const auto row = row_length(chunk, options);
        EXPECT_EQ(window.start + window.offset, next);
        EXPECT_EQ(window.offset + window.scored, window.length);
        EXPECT_LE(window.length, row);
        if (chunk + 1 < chunks) {
          EXPECT_EQ(window.length, row);
          EXPECT_EQ(window.scored, options.chunk_size);
          EXPECT_EQ(window.offset, std::min(next, options.longest_row - options.chunk_size));
        }
        next += window.scored;
      }
      EXPECT_EQ(next, predictions);
      EXPECT_EQ(chunk_window(predictions, chunks, options), ChunkWindow());
    }
  }
}

}  // namespace
}  // namespace tg
