#include "model/micro_step.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/model/fixtures.h"
#include "tests/model/spec.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

constexpr std::int64_t kTokens = 12;

// A micro-batch of two rows of six tokens, whose segments have room for `capacity`.
DeviceBatch batch_of(std::vector<int> starts, std::int64_t capacity, std::uint64_t seed) {
  starts.resize(static_cast<std::size_t>(capacity) + 1, kTokens);
  return {.inputs = test::integers({2, 6}, 16, seed),
          .targets = test::integers({2, 6}, 16, seed + 1),
          .segments = at::tensor(starts, at::kInt),
          .longest_segment = 6};
}

struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> gradients;
};

Trained train(const std::vector<DeviceBatch>& batches, std::int64_t joined) {
  ModelConfig config = test::tiny_record();
  config.vocab_size = 16;
  const auto table = test::random_parameters(config, at::kDouble, 1);
  Gpt model(test::plan_of(config), table, {.compute = at::kDouble});
  MicroStep step(model, {.scale = 0.25}, at::kCPU, /*graphs=*/false);
  step.set_size({.joined = joined});
  Trained trained;
  for (const auto& batch : batches) {
    if (!step.join(batch)) continue;
    trained.losses.push_back(step.forward(batch).item<double>());
    step.backward();
  }
  model.collect_gradients();
  for (const auto& row : table.rows()) trained.gradients.push_back(row.value.grad().clone());
  return trained;
}

// Also where a batch has more segments than its pass's first batch had room for.
TEST(MicroStep, JoinedMicroBatchesAddUpToTheirOwnLossesAndGradients) {
  const std::vector batches{batch_of({0, 4, 6}, 3, 1), batch_of({0, 2, 3, 6, 9}, 5, 3),
                            batch_of({0, 6, 7}, 5, 5), batch_of({0, 6}, 5, 7)};
  const auto separate = train(batches, 1), joined = train(batches, 2);
  ASSERT_EQ(separate.losses.size(), 4);
  ASSERT_EQ(joined.losses.size(), 2);
  for (const std::size_t i : {0, 1})
    EXPECT_NEAR(joined.losses[i], separate.losses[2 * i] + separate.losses[2 * i + 1], 1e-13);
  for (std::size_t i = 0; i < separate.gradients.size(); ++i)
    EXPECT_TRUE(test::is_close(joined.gradients[i], separate.gradients[i], 1e-10, 1e-14)) << i;
}

TEST(MicroStep, AnotherSizeDiscardsMicroBatchesThatAwaitAPass) {
  const std::vector batches{batch_of({0, 6}, 3, 1), batch_of({0, 3, 6}, 3, 3)};
  const auto table = test::random_parameters(test::tiny_record(), at::kDouble, 1);
  Gpt model(test::plan_of(test::tiny_record()), table, {.compute = at::kDouble});
  MicroStep step(model, {}, at::kCPU, /*graphs=*/false);
  step.set_size({.joined = 2});
  EXPECT_FALSE(step.join(batches[0]));
  step.set_size({.joined = 2});
  EXPECT_FALSE(step.join(batches[0]));
  EXPECT_TRUE(step.join(batches[1]));
}

}  // namespace
}  // namespace tg
