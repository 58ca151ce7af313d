#include "optim/kept_gradients.h"
#include "tests/comm/ranks.h"
#include "tests/optim/helpers.h"

namespace tg {
namespace {

// A bank that is updated in every step; gains and a table, of which a rank has a shard, that are
// updated as ADAM_EVERY says.
ParameterTable make_table() {
  ParameterTable table;
  table.add(
      {.name = "bank", .value = test::normal({2, 4, 6}, 1, at::kFloat), .update = Update::muon});
  table.add({.name = "gains", .value = test::normal({6}, 2, at::kFloat), .update = Update::scalar});
  table.add({.name = "table",
             .value = test::normal({1024}, 3, at::kFloat).repeat({1024, 1}),
             .update = Update::embedding});
  return table;
}

// Eighths of whole numbers: sums are the same bits in whatever order.
at::Tensor gradient_of(const Parameter& row, int step, int rank) {
  const auto seed = static_cast<std::uint64_t>(100 * step + 10 * rank) + row.name.size();
  const auto drawn = test::integers({row.value.size(-1)}, 17, seed).sub(8).to(at::kFloat).div_(8);
  return drawn.expand_as(row.value);
}

struct Training {
  Training(Communicator& communicator, std::int64_t every)
      : table(make_table()), optimizer(table, rates(every), {}, communicator) {}

  static OptimConfig rates(std::int64_t every) {
    OptimConfig o;
    o.adam_every = every;
    return o;
  }

  // By these gradients, one for each row → the norm.
  double step(const std::vector<at::Tensor>& gradients, bool updates_all, double skip = 0,
              double max_norm = 0) {
    optimizer.choose_rows(updates_all, Tie::none);
    optimizer.begin_step();
    for (std::size_t i = 0; i < gradients.size(); ++i)
      test::set_gradient(table.rows()[i].value, gradients[i].clone());
    optimizer.reduce(at::zeros({1}, at::kFloat), max_norm);
    const auto norm = optimizer.clip(max_norm);
    optimizer.step(test::scalars(0.5, 0.9, skip));
    return norm.item<double>();
  }
  // These ranks' gradients, added up.
  std::vector<at::Tensor> gradients(int step, const std::vector<int>& ranks) const {
    std::vector<at::Tensor> all;
    for (const auto& row : table.rows()) {
      auto sum = at::zeros_like(row.value.detach());
      for (const int rank : ranks) sum += gradient_of(row, step, rank);
      all.push_back(sum);
    }
    return all;
  }
  at::Tensor value(const std::string& name) const { return table[name].detach(); }

  ParameterTable table;
  Optimizer optimizer;
};

TEST(GradientSums, TwoStepsUpdateByTheSumOfTheirGradientsAndMuonByEach) {
  Communicator alone;
  Training every_second(alone, 2), by_sums(alone, 1), every_step(alone, 1);
  for (int pair = 0; pair < 2; ++pair) {
    const auto first = every_second.gradients(2 * pair, {0});
    const auto second = every_second.gradients(2 * pair + 1, {0});
    const auto before = every_second.value("table").clone();
    every_second.step(first, /*updates_all=*/false);
    EXPECT_TRUE(test::is_same(every_second.value("table"), before));
    every_second.step(second, /*updates_all=*/true);
    std::vector<at::Tensor> sums;
    for (std::size_t i = 0; i < first.size(); ++i) sums.push_back(first[i] + second[i]);
    by_sums.step(sums, true);
    every_step.step(first, true);
    every_step.step(second, true);
  }
  for (const char* name : {"gains", "table"})
    EXPECT_TRUE(test::is_same(every_second.value(name), by_sums.value(name))) << name;
  EXPECT_TRUE(test::is_same(every_second.value("bank"), every_step.value("bank")));
  EXPECT_EQ(test::named(every_second.optimizer.replicated_state(), "step.gains").item<double>(), 2);
}

TEST(GradientSums, TheNormAndTheClippingAreOfTheGradientsThatAStepUses) {
  Communicator alone;
  Training training(alone, 2);
  const auto first = training.gradients(0, {0}), second = training.gradients(1, {0});
  const auto norm_of = [](const std::vector<at::Tensor>& tensors) {
    double squares = 0;
    for (const auto& tensor : tensors) squares += tensor.square().sum().item<double>();
    return std::sqrt(squares);
  };
  EXPECT_NEAR(training.step(first, false, 0, /*max_norm=*/1) / norm_of({first[0]}), 1, 1e-5);
  const auto sums = test::clones(training.optimizer.gradient_sums());
  EXPECT_TRUE(test::is_same(test::named(sums, "gradient_sum.gains"), first[1]));
  EXPECT_NEAR(training.step(second, true, 0, /*max_norm=*/1) /
                  norm_of({second[0], first[1] + second[1], first[2] + second[2]}),
              1, 1e-5);
}

TEST(GradientSums, ASkippedStepBetweenUpdatesAddsNothing) {
  Communicator alone;
  Training training(alone, 3), expected(alone, 3);
  const auto first = training.gradients(0, {0}), last = training.gradients(2, {0});
  auto bad = training.gradients(1, {0});
  for (auto& gradient : bad) gradient.fill_(std::nan(""));
  training.step(first, false);
  training.step(bad, false, /*skip=*/1);
  training.step(last, true);
  expected.step(first, false);
  expected.step(last, true);
  test::expect_same(training.table.named_values(), expected.table.named_values());
}

TEST(GradientSums, ASkippedUpdateDropsTheGradientsThatItWouldHaveTaken) {
  Communicator alone;
  Training training(alone, 2);
  auto bad = training.gradients(0, {0});
  bad[1].fill_(std::nan(""));  // in no norm of this step
  EXPECT_TRUE(std::isfinite(training.step(bad, false)));
  const auto weights = test::clones(training.table.named_values());
  EXPECT_FALSE(std::isfinite(training.step(training.gradients(1, {0}), true, /*skip=*/1)));
  test::expect_same(training.table.named_values(), weights);
  for (const auto& [name, value] : training.optimizer.gradient_sums())
    EXPECT_FALSE(value.any().item<bool>()) << name;
  training.step(training.gradients(2, {0}), false);
  EXPECT_TRUE(std::isfinite(training.step(training.gradients(3, {0}), true)));
}

TEST(GradientSums, RanksReduceTheirSumsOnce) {
  Communicator alone;
  Training one(alone, 2);
  for (int step = 0; step < 4; ++step) one.step(one.gradients(step, {0, 1}), step % 2 == 1);
  test::as_ranks(2, [&](Communicator& communicator) {
    Training shared(communicator, 2);
    for (int step = 0; step < 4; ++step)
      shared.step(shared.gradients(step, {communicator.rank()}), step % 2 == 1);
    for (const auto& [name, value] : shared.table.named_values()) {
      // Where a vector of the CPU's kernel ends, it rounds otherwise.
      EXPECT_TRUE(test::is_close(value, one.value(name), 1e-6, 1e-6)) << name;
    }
  });
}

}  // namespace
}  // namespace tg
