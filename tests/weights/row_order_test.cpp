#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <stdexcept>

#include "base/progress.h"
#include "weights/artifact/pergroup.h"

namespace tg {
namespace {

using Order = std::vector<std::uint16_t>;

// As the sentence says it.
Order plain_order(const std::vector<std::int8_t>& matrix, std::size_t rows) {
  const std::size_t columns = matrix.size() / rows;
  Order order = {0};
  std::vector<bool> used(rows);
  used[0] = true;
  while (order.size() < rows) {
    long least = -1;
    std::size_t nearest = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      if (used[r]) continue;
      long distance = 0;
      const std::int8_t* const row = &matrix[r * columns];
      const std::int8_t* const last = &matrix[order.back() * columns];
      for (std::size_t c = 0; c < columns; ++c) distance += std::abs(row[c] - last[c]);
      if (least >= 0 && distance >= least) continue;
      least = distance;
      nearest = r;
    }
    used[nearest] = true;
    order.push_back(static_cast<std::uint16_t>(nearest));
  }
  return order;
}

// What the reference implementation makes of rows with ties.
TEST(RowOrder, IsThatOfTheReference) {
  const std::vector<std::int8_t> rows = {
      3,  0,  -2, 2,  -2, -3, 3, 2,  -2, 3,  -2, -1, -1, 1,  3,  3,  1,  0,  1,  -3, 1,  -2, 3,  -2,
      -3, 3,  -3, -1, 3,  -3, 2, -1, -1, 0,  -2, 1,  -1, -3, -2, -2, 0,  2,  1,  -1, -2, 2,  3,  0,
      -2, 0,  2,  1,  0,  3,  2, 3,  -1, -2, -1, 1,  2,  -3, 3,  -2, 0,  1,  -3, 3,  -3, -1, 3,  -3,
      -2, -3, 2,  -2, 3,  1,  1, -1, -1, 0,  -1, -2, -2, 1,  3,  1,  2,  0,  1,  -1, -1, -3, -1, 0,
      0,  -3, 1,  2,  -1, 2,  2, 1,  2,  3,  1,  0,  -1, 1,  1,  3,  -2, -3, -1, 1,  3,  -3, 2,  -2,
      -1, 2,  2,  -3, 1,  2,  3, -3, 0,  1,  0,  1,  1,  3,  -1, 1,  0,  -3, 2,  -3, -1, 1,  0,  3,
  };
  EXPECT_EQ(greedy_row_order(rows, 24), (Order{0,  1,  5, 13, 15, 9, 22, 18, 2,  14, 8, 16,
                                               21, 23, 6, 10, 12, 3, 19, 20, 17, 7,  4, 11}));
}

// The extreme differences of bytes, columns beside whole blocks, and a matrix for which threads
// start.
TEST(RowOrder, OfAnyShapeIsTheGreedyOne) {
  std::mt19937 random(3);
  for (const auto& [rows, columns, least, most] :
       {std::tuple<std::size_t, std::size_t, int, int>{1, 5, -3, 3},
        {90, 1, -2, 2},
        {70, 64, -128, 127},
        {300, 67, -31, 31},
        {10, 1'680'000, -1, 1}}) {
    std::uniform_int_distribution<int> level(least, most);
    std::vector<std::int8_t> matrix(rows * columns);
    // Of a large matrix a part is drawn, and repeated so that no two rows begin alike.
    const auto drawn = std::min<std::size_t>(matrix.size(), 100'003);
    std::generate_n(matrix.begin(), drawn, [&] { return static_cast<std::int8_t>(level(random)); });
    for (auto i = drawn; i < matrix.size(); ++i) matrix[i] = matrix[i - drawn];
    EXPECT_EQ(greedy_row_order(matrix, rows), plain_order(matrix, rows)) << rows << " " << columns;
  }
  EXPECT_EQ(greedy_row_order({}, 0), Order());
}

TEST(RowOrder, AnErrorOnTheWayEndsAllItsThreads) {
  const std::vector<std::int8_t> matrix(20 * 840'000);
  int calls = 0;
  const ProgressListener listener([&](std::int64_t) {
    if (++calls == 5) throw std::runtime_error("stop");
  });
  EXPECT_THROW(greedy_row_order(matrix, 20), std::runtime_error);
}

}  // namespace
}  // namespace tg
