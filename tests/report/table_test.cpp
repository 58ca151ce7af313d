#include "report/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tg {
namespace {

// Steps from 1, and a curve with a peak, a dip and a gap of one step each.
Table long_table(int rows) {
  Table table{{{"step"}, {"loss", true}}};
  for (int row = 0; row < rows; ++row) {
    const double value = row == 7777   ? 99
                         : row == 8888 ? -99
                         : row == 9999 ? std::nan("")
                                       : std::sin(row * 0.001);
    table.add_row({row + 1.0, value});
  }
  return table;
}

TEST(Table, ThinningKeepsExtremesGapsAndEnds) {
  const auto all = long_table(100000);
  const auto thin = thinned(all, 100);
  EXPECT_LE(thin.rows(), 203u);
  const auto& steps = thin.columns[0].values;
  for (const double step : {1.0, 7778.0, 8889.0, 10000.0, 100000.0}) {
    EXPECT_TRUE(std::ranges::binary_search(steps, step)) << step;
  }
  for (std::size_t row = 0; row < thin.rows(); ++row) {
    const double expected = all.columns[1].values[static_cast<std::size_t>(steps[row]) - 1];
    if (!std::isnan(expected)) {
      EXPECT_EQ(thin.columns[1].values[row], expected);
    }
  }
}

TEST(Table, ASmallOneStaysWhole) {
  EXPECT_EQ(thinned(long_table(200), 100).rows(), 200u);
  EXPECT_EQ(averaged(long_table(100), 100).rows(), 100u);
  EXPECT_EQ(thinned(long_table(0), 100).rows(), 0u);
  EXPECT_EQ(averaged(long_table(0), 100).rows(), 0u);
}

TEST(Table, MeansLeaveOutWhatIsMissing) {
  Table table{{{"a"}, {"b"}}};
  const double none = std::nan("");
  for (const auto& row : {std::vector{1.0, none}, {3.0, none}, {5.0, 8.0}, {6.0, none}}) {
    table.add_row(row);
  }
  const auto means = averaged(table, 2);
  EXPECT_EQ(means.columns[0].values, (std::vector{2.0, 5.5}));
  EXPECT_TRUE(std::isnan(means.columns[1].values[0]));
  EXPECT_EQ(means.columns[1].values[1], 8);
  EXPECT_EQ(table_json(means, 4).dump(), R"({"columns":{"a":[2.0,5.5],"b":[null,8.0]},"rows":4})");
}

}  // namespace
}  // namespace tg
