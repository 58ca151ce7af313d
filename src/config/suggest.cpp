#include "config/suggest.h"

#include <algorithm>
#include <cassert>

namespace tg {

int edit_distance(std::string_view a, std::string_view b) {
  // cost[i][j]: from the first i letters of a to the first j of b.
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = static_cast<int>(i + j);
        continue;
      }
      const int replaced = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

const std::string& nearest_name(std::string_view wrong, const std::vector<std::string>& names) {
  assert(!names.empty());
  wrong = wrong.substr(0, 100);  // the cost is quadratic, and no name is longer
  return *std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return edit_distance(wrong, a) < edit_distance(wrong, b);
  });
}

}  // namespace tg
