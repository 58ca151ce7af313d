#include "report/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tg {
namespace {

// A curve with a peak, a dip and a gap of one step each.
double value_at(int row) {
  if (row == 9999) return std::nan("");
  return row == 7777 ? 99 : row == 8888 ? -99 : std::sin(row * 0.001);
}

// Steps from 1.
ThinnedTable long_table(int rows, std::size_t parts) {
  ThinnedTable table({{"step"}, {"loss", true}}, parts);
  for (int row = 0; row < rows; ++row) table.add_row({row + 1.0, value_at(row)});
  return table;
}

AveragedTable means_of(int rows, std::size_t parts) {
  AveragedTable table({"a"}, parts);
  for (int row = 0; row < rows; ++row) table.add_row({row + 1.0});
  return table;
}

TEST(Table, ThinningKeepsExtremesGapsAndEnds) {
  const auto table = long_table(100003, 100);
  const auto rows = table.kept();
  EXPECT_EQ(table.rows(), 100003u);
  EXPECT_LE(rows.size(), 203u);
  EXPECT_GE(rows.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(rows, {}, [](const Row& row) { return row[0]; }));
  for (const double step : {1.0, 7778.0, 8889.0, 10000.0, 100003.0}) {
    EXPECT_EQ(std::ranges::count(rows, step, [](const Row& row) { return row[0]; }), 1) << step;
  }
  for (const auto& row : rows) {
    const double expected = value_at(static_cast<int>(row[0]) - 1);
    if (!std::isnan(expected)) {
      EXPECT_EQ(row[1], expected);
    }
  }
}

// Thinning as rows come keeps what thinning all of them at once would: of each part of 1024 rows,
// the length that 100,000 rows in at most 100 parts have, the least and the greatest.
TEST(Table, EveryPartKeepsItsOwnExtremes) {
  const auto rows = long_table(100000, 100).kept();
  for (int begin = 0; begin < 100000; begin += 1024) {
    double least = 1e9, greatest = -1e9, kept_least = 1e9, kept_greatest = -1e9;
    const int end = std::min(begin + 1024, 100000);
    for (int row = begin; row < end; ++row) {
      least = std::fmin(least, value_at(row));
      greatest = std::fmax(greatest, value_at(row));
    }
    for (const auto& row : rows) {
      if (row[0] <= begin || row[0] > end) continue;
      kept_least = std::fmin(kept_least, row[1]);
      kept_greatest = std::fmax(kept_greatest, row[1]);
    }
    EXPECT_EQ(kept_least, least) << begin;
    EXPECT_EQ(kept_greatest, greatest) << begin;
  }
}

TEST(Table, ASmallOneStaysWhole) {
  EXPECT_EQ(long_table(100, 100).kept().size(), 100u);
  EXPECT_EQ(long_table(0, 100).kept().size(), 0u);
  EXPECT_EQ(means_of(3, 4).json().dump(), R"({"columns":{"a":[1.0,2.0,3.0]},"rows":3})");
  EXPECT_EQ(means_of(0, 4).json().dump(), R"({"columns":{"a":[]},"rows":0})");
}

TEST(Table, MeansAreOfPartsOfEqualLength) {
  EXPECT_EQ(means_of(5, 4).json().dump(), R"({"columns":{"a":[1.5,3.5,5.0]},"rows":5})");
  EXPECT_EQ(means_of(16, 4).json().dump(), R"({"columns":{"a":[2.5,6.5,10.5,14.5]},"rows":16})");
}

TEST(Table, MeansLeaveOutWhatIsMissing) {
  AveragedTable table({"a", "b"}, 2);
  const double none = std::nan("");
  for (const auto& row : {Row{1, none}, {3, none}, {5, 8}, {6, none}}) table.add_row(row);
  EXPECT_EQ(table.json().dump(), R"({"columns":{"a":[2.0,5.5],"b":[null,8.0]},"rows":4})");
}

}  // namespace
}  // namespace tg
