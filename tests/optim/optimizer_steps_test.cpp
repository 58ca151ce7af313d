// Gradients on their way through an Optimizer's step, and its state.
#include <map>

#include "optim/shard.h"
#include "tests/optim/optimizer_fixture.h"

namespace tg {
namespace {

using test::config_with_every_part, test::distinct_rates;
using Fixture = test::OptimizerFixture;

// Whether the loss is scaled or not, and whether its scale changes meanwhile or not.
TEST(Optimizer, AGradientThatIsKeptGetsTheContributionOfEachStepOnce) {
  for (const std::int64_t scaled_tokens : {0, 1}) {
    Fixture f(config_with_every_part(), distinct_rates(),
              {.record_quirks = true, .scaled_tokens = scaled_tokens});
    f.set_gradients(0);
    const auto& head = f.table["mtp_heads.0.weight"];
    auto expected = at::zeros_like(head.detach());
    for (std::uint64_t step = 0; step < 4; ++step) {
      const auto contribution = test::normal(head.sizes(), step + 1);
      const bool skipped = step == 1;
      f.optimizer.begin_step();
      const auto scale = f.optimizer.grad_scale();
      head.grad().add_(scale.defined() ? contribution * scale : contribution);
      f.reduce();
      f.optimizer.step(test::scalars(1, 0.9, skipped ? 1 : 0));
      if (!skipped) expected += contribution;
      // Scales are powers of two, which round nothing.
      EXPECT_TRUE(at::equal(f.optimizer.kept_gradients()[0].second, expected)) << step;
    }
  }
}

TEST(Optimizer, AStepSkippedForOneGradientLeavesNoneThatIsNotFiniteBehind) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    for (const double max_norm : {0.0, 0.3}) {
      Fixture f(config_with_every_part(), distinct_rates(), {.record_quirks = true});
      f.set_gradients();
      f.table["mtp_heads.0.weight"].grad().view({-1})[3].fill_(bad);
      ASSERT_FALSE(std::isfinite(f.reduce(max_norm).item<double>()));
      f.optimizer.step(test::scalars(1, 0.9, /*skip=*/1));
      f.optimizer.begin_step();
      for (const auto& row : f.table.rows()) row.value.grad().add_(0.5);  // a backward pass
      EXPECT_TRUE(std::isfinite(f.reduce(max_norm).item<double>())) << bad << " " << max_norm;
    }
  }
}

TEST(Optimizer, TheNormCountsEveryGradientOnce) {
  for (const auto storage : {at::kFloat, at::kBFloat16}) {
    Fixture f(config_with_every_part(), distinct_rates(), {.record_quirks = true}, storage);
    f.set_gradients();
    // A parameter without a gradient counts nothing.
    at::Tensor(f.table["blocks.0.attn.vr_lambda"]).mutable_grad().reset();
    double squares = 0;
    for (const auto& row : f.table.rows()) {
      if (!row.value.grad().defined()) continue;
      for (const double g : test::values_of(row.value.grad())) squares += g * g;
    }
    const auto norm = f.reduce();
    EXPECT_EQ(norm.scalar_type(), at::kFloat);
    EXPECT_EQ(norm.dim(), 0);
    // The norm of a bf16 table is a bf16 number, 2^-8 relative.
    EXPECT_NEAR(norm.item<double>() / std::sqrt(squares), 1,
                storage == at::kFloat ? 1e-5 : 1.0 / 256);
  }
}

TEST(Optimizer, ClippingScalesEveryGradientByOneFactor) {
  for (const double limit : {0.3, 1e6}) {
    Fixture f(config_with_every_part(), distinct_rates(), {});
    f.set_gradients();
    const auto before = test::gradients_of(f.table);
    const auto norm = f.reduce(limit);
    const auto reduced = test::gradients_of(f.table);
    f.optimizer.step(test::scalars(0, 0.9));
    const double factor = std::min(1.0, limit / (norm.item<double>() + 1e-6));
    for (std::size_t i = 0; i < before.size(); ++i) {
      // A bank's gradient is scaled on its way into the momentum.
      const auto& row = f.table.rows()[i];
      const auto clipped = row.update.by_matrix()
                               ? test::momentum_of(f.optimizer.sharded_state(), row.name)
                               : reduced[i].second;
      // fp32: the factor and the product round once each.
      EXPECT_TRUE(test::is_close(clipped, before[i].second * factor, 3e-7, 0)) << row.name;
    }
  }
}

TEST(Optimizer, ASkippedStepLeavesWeightsAndStateAsTheyAre) {
  auto optim = distinct_rates();
  optim.adam_wd = optim.muon_wd = 0.1;
  Fixture f(config_with_every_part(), optim, {}, at::kBFloat16);
  f.set_gradients();
  f.step(test::scalars(1, 0.9));
  const auto weights = f.weights();
  const auto state = test::clones(test::state_of(f.optimizer));
  f.set_gradients(std::nan(""));
  f.step(test::scalars(1, 0.9, /*skip=*/1));
  test::expect_same(f.table.named_values(), weights);
  test::expect_same(test::state_of(f.optimizer), state);
}

TEST(Optimizer, StateNamesAreUniqueAndCoverEveryParameter) {
  Fixture f(config_with_every_part(), distinct_rates(), {});
  std::map<std::string, int> names;
  for (const auto& [name, value] : test::state_of(f.optimizer)) ++names[name];
  for (const auto& [name, count] : names) EXPECT_EQ(count, 1) << name;
  std::size_t expected = 0;
  for (const auto& row : f.table.rows()) {
    if (row.update.by_matrix()) {
      const auto matrices = as_chunks(row.value, row.update).size(0);
      expected += static_cast<std::size_t>(matrices);
      const auto last = "momentum." + row.name + "." + std::to_string(matrices - 1);
      EXPECT_TRUE(names.contains(last)) << row.name;
    } else {
      expected += 3;
      EXPECT_TRUE(names.contains("exp_avg." + row.name)) << row.name;
    }
  }
  EXPECT_EQ(names.size(), expected);
}

}  // namespace
}  // namespace tg
