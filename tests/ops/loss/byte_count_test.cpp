#include "ops/loss/byte_count.h"

#include <gtest/gtest.h>

#include <random>

namespace tg {
namespace {

TEST(ByteCount, OnTensorsEqualsTheHostsCount) {
  std::mt19937 random(1);
  ByteTable table;
  for (int id = 0; id < 50; ++id) {
    table.base_bytes.push_back(static_cast<std::int16_t>(random() % 17));
    table.leading_space.push_back(random() % 2);
    table.boundary.push_back(random() % 3 == 0);
  }
  std::vector<std::uint16_t> tokens;
  for (int i = 0; i < 1 + 6 * 20; ++i) tokens.push_back(static_cast<std::uint16_t>(random() % 50));
  const auto ids = at::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end()), at::kLong);
  const auto x = ids.slice(0, 0, -1).view({6, 20}), y = ids.slice(0, 1).view({6, 20});
  EXPECT_EQ(count_bytes(to_device(table, at::kCPU), x, y).item<std::int64_t>(),
            count_bytes(table, tokens));
}

}  // namespace
}  // namespace tg
