#include "data/segments.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tg {
namespace {

using Tokens = std::vector<std::uint16_t>;
using Starts = std::vector<std::int32_t>;

std::int64_t longest(Starts starts, std::size_t tokens) {
  starts.push_back(static_cast<std::int32_t>(tokens));
  std::int64_t most = 0;
  for (std::size_t i = 1; i < starts.size(); ++i)
    most = std::max<std::int64_t>(most, starts[i] - starts[i - 1]);
  return most;
}

// The segments of the reference implementation.
TEST(Segments, BeginAtZeroAtEveryBosAndFromEachOfTheseEveryLimit) {
  const struct {
    Tokens row;
    std::int64_t limit;
    Starts starts;
    std::int64_t longest;
  } cases[] = {
      {{7, 8, 1, 9, 9, 9, 9, 9, 9, 1, 1, 5, 6}, 4, {0, 2, 6, 9, 10}, 4},
      {{1, 2, 3, 4, 5, 6, 7, 8}, 3, {0, 3, 6}, 3},
      {{5, 6, 7}, 0, {0}, 3},
      {{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}, 8, {0, 8, 10, 18}, 8},
  };
  for (const auto& [row, limit, starts, most] : cases) {
    const auto found = segment_starts(row, std::ssize(row), {.bos_id = 1, .limit = limit});
    EXPECT_EQ(found, starts);
    EXPECT_EQ(longest(found, row.size()), most);
  }
}

TEST(Segments, BeginWithEveryRow) {
  const Tokens rows = {9, 9, 9, 9, 1, 9, 9, 9, 9, 9, 9, 1};
  EXPECT_EQ(segment_starts(rows, 4, {.bos_id = 1}), (Starts{0, 4, 8, 11}));
  EXPECT_EQ(segment_starts(rows, 6, {.bos_id = 1, .limit = 3}), (Starts{0, 3, 4, 6, 9, 11}));
}

TEST(Segments, TheirUsualNumberHasRoomForRowsAndTheLimit) {
  EXPECT_EQ(usual_segments(98304, 98304, {.limit = 2048}), 192);  // 128 documents and 48 cuts
  EXPECT_EQ(usual_segments(512, 512, {.limit = 128}), 64);
  EXPECT_EQ(usual_segments(512, 8, {.limit = 0}), 64);
  EXPECT_EQ(usual_segments(4096, 8, {.limit = 0}), 576);  // 5 documents and 512 rows
  EXPECT_EQ(more_segments(65), 128);
  EXPECT_EQ(more_segments(300), 384);
}

}  // namespace
}  // namespace tg
