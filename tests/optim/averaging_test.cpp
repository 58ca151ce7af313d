#include "optim/averaging.h"

#include <numeric>

#include "tests/comm/ranks.h"
#include "tests/optim/helpers.h"

namespace tg {
namespace {

using test::as_ranks;

// One scalar weight says it all; a second one, in bf16, that averages are kept in fp32.
struct Weights {
  Weights() {
    table.add({.name = "a", .value = at::zeros({1}), .update = Update::scalar});
    const auto half = at::zeros({2, 2}, at::kBFloat16);
    table.add({.name = "b", .value = half, .update = Update::embedding});
  }
  void set(double value) {
    for (const auto& row : table.rows()) row.value.detach().fill_(value);
  }
  double get() const { return table["a"].item<double>(); }

  ParameterTable table;
};

AveragingConfig only(bool ema, bool swa, bool lawa) {
  AveragingConfig config;
  config.ema_enabled = ema;
  config.swa_enabled = swa;
  config.lawa_enabled = lawa;
  config.ema_decay = 0.75;
  config.swa_every = 2;
  config.lawa_freq = 2;
  config.lawa_k = 3;
  return config;
}

Communicator alone;

// Weight s after step s, 0 before the first; then the average.
std::string train(WeightAverage& average, Weights& weights, std::int64_t steps,
                  double lr_scale = 0.1) {
  for (std::int64_t step = 1; step <= steps; ++step) {
    weights.set(static_cast<double>(step));
    average.update(step, lr_scale);
  }
  return average.apply();
}

double ema_of_steps(double initial, std::int64_t steps) {
  double ema = initial;
  for (std::int64_t step = 1; step <= steps; ++step) {
    ema = 0.75 * ema + 0.25 * static_cast<double>(step);
  }
  return ema;
}

TEST(WeightAverage, EmaStartsAtTheInitialWeights) {
  Weights weights;
  weights.set(8);
  WeightAverage average(weights.table, only(true, false, false), alone);
  EXPECT_EQ(train(average, weights, 5), "ema:applying EMA weights");
  EXPECT_NEAR(weights.get(), ema_of_steps(8, 5), 1e-6);  // fp32, five steps
  EXPECT_EQ(weights.table["b"].scalar_type(), at::kBFloat16);
  EXPECT_NEAR(weights.table["b"][0][0].item<double>(), ema_of_steps(8, 5),
              ema_of_steps(8, 5) / 256);
}

TEST(WeightAverage, EmaOfHalfPrecisionWeightsMovesByLessThanTheirSteps) {
  Weights weights;
  weights.set(1);
  auto config = only(true, false, false);
  config.ema_decay = 0.997;
  WeightAverage average(weights.table, config, alone);
  // 0.003 · 2^-7 is far below a bf16 step at 1; kept in fp32 it adds up to a whole one.
  weights.set(1 + 1.0 / 128);
  for (int step = 1; step <= 2000; ++step) average.update(step, 1);
  average.apply();
  EXPECT_NEAR(weights.table["b"][1][1].item<double>(), 1 + 1.0 / 128, 1e-9);
}

TEST(WeightAverage, LawaIsTheMeanOfTheLastCopies) {
  Weights weights;
  WeightAverage average(weights.table, only(true, true, true), alone);
  EXPECT_EQ(train(average, weights, 9), "lawa:applying LAWA averaging k=3");
  EXPECT_NEAR(weights.get(), (4 + 6 + 8) / 3.0, 1e-6);
}

TEST(WeightAverage, LawaMayHaveFewerCopiesThanItKeeps) {
  Weights weights;
  WeightAverage average(weights.table, only(false, false, true), alone);
  EXPECT_EQ(train(average, weights, 4), "lawa:applying LAWA averaging k=2");
  EXPECT_NEAR(weights.get(), 3, 1e-6);
}

TEST(WeightAverage, LawaWithOneCopyFallsBackToEma) {
  for (const bool ema : {true, false}) {
    Weights weights;
    WeightAverage average(weights.table, only(ema, true, true), alone);
    EXPECT_EQ(train(average, weights, 3), "ema:applying EMA weights");
    EXPECT_NEAR(weights.get(), ema_of_steps(0, 3), 1e-6);
  }
}

TEST(WeightAverage, EmaGoesBeforeSwa) {
  Weights weights;
  WeightAverage average(weights.table, only(true, true, false), alone);
  EXPECT_FALSE(average.collects_swa());
  EXPECT_EQ(train(average, weights, 6), "ema:applying EMA weights");
  EXPECT_NEAR(weights.get(), ema_of_steps(0, 6), 1e-6);
}

TEST(WeightAverage, SwaIsTheMeanOfLateCopies) {
  Weights weights;
  WeightAverage average(weights.table, only(false, true, false), alone);
  EXPECT_TRUE(average.collects_swa());
  EXPECT_EQ(train(average, weights, 7).substr(0, 4), "swa:");
  EXPECT_NEAR(weights.get(), (2 + 4 + 6) / 3.0, 1e-6);
}

TEST(WeightAverage, SwaBeginsOnceAndBelowAFifthOnly) {
  for (const bool collects : {true, false}) {
    Weights weights;
    WeightAverage average(weights.table, only(!collects, true, false), alone);
    EXPECT_EQ(average.collects_swa(), collects);
    EXPECT_FALSE(average.update(2, 0.2));   // not below
    EXPECT_FALSE(average.update(3, 0.19));  // not a multiple of SWA_EVERY
    EXPECT_TRUE(average.update(4, 0.19));
    EXPECT_FALSE(average.update(6, 0.1));
  }
  Weights weights;
  WeightAverage off(weights.table, only(true, false, false), alone);
  EXPECT_FALSE(off.update(4, 0.1));
}

TEST(WeightAverage, SwaWithoutCopiesChangesNothing) {
  Weights weights;
  WeightAverage average(weights.table, only(false, true, false), alone);
  EXPECT_EQ(train(average, weights, 6, /*lr_scale=*/1), "");
  EXPECT_EQ(weights.get(), 6);
}

// A bank, a large table and a scalar, all at other weights each step.
struct ShardedWeights {
  ShardedWeights() {
    table.add({.name = "bank", .value = at::zeros({5, 4, 4}), .update = Update::muon});
    table.add({.name = "gains", .value = at::zeros({6}), .update = Update::scalar});
    const auto large = at::zeros({1100, 1000}, at::kBFloat16);
    table.add({.name = "table", .value = large, .update = Update::embedding});
    for (const auto& row : table.rows()) {
      first.push_back(test::drawn(row.value.sizes(), [&](at::IntArrayRef shape) {
        return test::normal(shape, 1, at::kFloat);
      }));
    }
  }
  std::string train(WeightAverage& average, std::int64_t steps) {
    for (std::int64_t step = 1; step <= steps; ++step) {
      for (std::size_t i = 0; i < first.size(); ++i)
        table.rows()[i].value.detach().copy_(first[i] * step);
      average.update(step, /*lr_scale=*/0.1);
    }
    return average.apply();
  }

  ParameterTable table;
  std::vector<at::Tensor> first;  // weights of each row at step 1; at step n they are n times that
};

std::int64_t elements_of(const NamedTensors& state) {
  return std::accumulate(
      state.begin(), state.end(), std::int64_t{0},
      [](std::int64_t sum, const auto& named) { return sum + named.second.numel(); });
}

TEST(WeightAverage, RanksAverageTheirShardsAndAllGetTheWhole) {
  for (const auto& config :
       {only(true, false, false), only(false, true, false), only(false, true, true)}) {
    ShardedWeights expected;
    WeightAverage of_one(expected.table, config, alone);
    const auto line = expected.train(of_one, 9);
    for (const int world : {2, 3, 5}) {
      as_ranks(world, [&](Communicator& communicator) {
        ShardedWeights weights;
        WeightAverage average(weights.table, config, communicator);
        EXPECT_EQ(weights.train(average, 9), line);
        for (const auto& row : expected.table.rows()) {
          EXPECT_TRUE(test::is_same(weights.table[row.name].detach(), row.value.detach()))
              << row.name << " on " << communicator.rank() << " of " << world;
        }
        EXPECT_EQ(elements_of(average.replicated_state()), elements_of(of_one.replicated_state()));
        EXPECT_LE(elements_of(average.sharded_state()),
                  elements_of(of_one.sharded_state()) * 2 / world);
      });
    }
  }
}

TEST(WeightAverage, NothingEnabledChangesNothing) {
  Weights weights;
  WeightAverage average(weights.table, only(false, false, false), alone);
  EXPECT_EQ(train(average, weights, 3), "");
  EXPECT_EQ(weights.get(), 3);
}

}  // namespace
}  // namespace tg
