#include "eval/scores/windows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "eval/ttt/chunk_training.h"

namespace tg {
namespace {

// Returns how often each position's prediction is scored.
std::vector<int> times_scored(const std::vector<Window>& windows, std::int64_t predictions) {
  std::vector<int> times(static_cast<std::size_t>(predictions));
  for (const auto& window : windows) {
    for (auto t = window.begin + window.from; t < window.begin + window.to; ++t)
      ++times.at(static_cast<std::size_t>(t));
  }
  return times;
}

struct Case {
  std::int64_t predictions, length, stride;
};
const Case kCases[] = {
    {.predictions = 64, .length = 16, .stride = 4},
    {.predictions = 64, .length = 16, .stride = 5},  // the last window reaches past the end
    {.predictions = 16, .length = 16, .stride = 1},  // one window is the whole split
    {.predictions = 48, .length = 16, .stride = 15},
    {.predictions = 7, .length = 16, .stride = 4},  // a split shorter than a window
};

TEST(SlidingWindows, ScoreEveryTokenOnceWithContextOfAWindowLessAStride) {
  for (const auto& [predictions, length, stride] : kCases) {
    const auto windows = sliding_windows(predictions, {.length = length, .stride = stride});
    EXPECT_EQ(times_scored(windows, predictions),
              std::vector<int>(static_cast<std::size_t>(predictions), 1));
    for (const auto& window : windows) {
      EXPECT_EQ(window.begin % stride, 0);
      EXPECT_LE(window.to, length);
      if (window.begin == 0) continue;
      EXPECT_EQ(window.from, length - stride);
    }
  }
}

TEST(SlidingWindows, OfTheReferenceScoreTheTailAgainInShorterWindows) {
  const WindowOptions options{.length = 16, .stride = 5, .rescore_tail = true};
  const std::vector<Window> expected{{0, 0, 16}, {5, 10, 15}, {10, 5, 10}, {15, 0, 5}};
  EXPECT_EQ(sliding_windows(20, options), expected);
  auto at_least_a_stride = options;
  at_least_a_stride.least = 6;
  EXPECT_EQ(sliding_windows(20, at_least_a_stride),
            std::vector<Window>(expected.begin(), expected.end() - 1));
}

TEST(SlidingWindows, AreBatchedInRowsThatScoreTheSamePositions) {
  const auto windows = sliding_windows(64, {.length = 16, .stride = 5});
  const auto batches = batch_windows(windows, 5, 4);
  std::vector<Window> again;
  for (const auto& [first, rows] : batches) {
    EXPECT_LE(rows, 4);
    for (std::int64_t row = 0; row < rows; ++row)
      again.push_back({first.begin + row * 5, first.from, first.to});
  }
  EXPECT_EQ(again, windows);
  // The whole first window, then the last five positions of nine windows, then the rest of the last
  // window.
  EXPECT_EQ(batches.size(), 1U + 3U + 1U);
}

TEST(SlidingWindows, AreSharedByRanksWithoutGapOrOverlap) {
  const auto windows = sliding_windows(64, {.length = 16, .stride = 4});
  for (const int world : {1, 2, 3, 20}) {
    std::vector<Window> all;
    for (int rank = 0; rank < world; ++rank) {
      const auto share = rank_range(windows, rank, world);
      all.insert(all.end(), share.begin(), share.end());
    }
    EXPECT_EQ(all, windows);
  }
}

TEST(TttChunks, ScoreEveryTokenOnceAndNoneAfterItsChunkWasTrainedOn) {
  for (const auto& [predictions, length, stride] : kCases) {
    const std::int64_t chunk_tokens = 24;
    const auto chunks =
        windows_of_chunks(predictions, {.length = length, .stride = stride}, chunk_tokens);
    std::vector<Window> all;
    for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
      for (const auto& window : chunks[chunk]) {
        all.push_back(window);
        // Earlier chunks have been trained on: none of their predictions may remain to be scored.
        EXPECT_GE(window.begin + window.from, static_cast<std::int64_t>(chunk) * chunk_tokens);
      }
    }
    EXPECT_EQ(times_scored(all, predictions),
              std::vector<int>(static_cast<std::size_t>(predictions), 1));
  }
}

TEST(TttChunks, AreDealtToRanksInWholeSequences) {
  // Chunks of 40, 40 and 20; with rows of 8: 5, 5 and 2.
  const ChunkRows rows{.predictions = 100, .chunk_tokens = 40, .length = 8};
  EXPECT_EQ(rows.chunks(), 3);
  for (const int world : {1, 2, 3, 7}) {
    for (std::int64_t chunk = 0; chunk < 3; ++chunk) {
      std::int64_t next = chunk * 40, most = 0;
      for (int rank = 0; rank < world; ++rank) {
        const auto share = rank_rows(rows, chunk, rank, world);
        EXPECT_EQ(share.begin, next);
        next += share.rows * 8;
        most = std::max(most, share.rows);
      }
      EXPECT_EQ(next, chunk * 40 + (chunk == 2 ? 16 : 40));
      EXPECT_EQ(rank_rows(rows, chunk, 0, world).most_rows, most);
    }
  }
}

TEST(TttChunks, HaveACosineOfLearningRates) {
  EXPECT_DOUBLE_EQ(chunk_lr(0.02, 0, 5), 0.02);
  EXPECT_NEAR(chunk_lr(0.02, 2, 5), 0.01, 1e-12);
  EXPECT_NEAR(chunk_lr(0.02, 4, 5), 0, 1e-12);
  EXPECT_DOUBLE_EQ(chunk_lr(0.02, 0, 1), 0.02);
}

}  // namespace
}  // namespace tg
