#include "optim/reduction.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <thread>

#include "optim/optimizer.h"
#include "optim/shard.h"
#include "tests/comm/ranks.h"
#include "tests/optim/helpers.h"

namespace tg {
namespace {

using test::as_ranks, test::drawn;

constexpr int kWorlds[] = {1, 2, 3, 4, 5};

at::Tensor normal(at::IntArrayRef shape, std::uint64_t seed, at::ScalarType dtype = at::kDouble) {
  return drawn(shape, [&](at::IntArrayRef part) { return test::normal(part, seed, dtype); });
}

// Banks of 1 to 7 matrices, which 2 to 5 ranks share unevenly or not at all; a table and a head
// that are too large to be packed; what is packed, in two formats; a parameter that no loss depends
// on; two matrices that Muon steps in one batch and a bank that AdamW steps.
// With `record_quirks` the multi-token head is in no optimizer.
ParameterTable make_table(bool record_quirks = false) {
  ParameterTable table;
  std::uint64_t seed = 1;
  const auto add = [&](const char* name, const Update& update, at::IntArrayRef shape,
                       at::ScalarType dtype = at::kFloat) {
    table.add({.name = name, .value = normal(shape, ++seed, dtype), .update = update});
  };
  add("gains", Update::scalar, {6});
  add("one_bank", Update::muon, {1, 6, 6});
  add("large_table", Update::embedding, {1100, 1000});
  add("down_bank", Update::muon, {7, 4, 8});
  add("unused", Update::scalar, {3});
  add("half_table", Update::embedding, {40, 6}, at::kBFloat16);
  add("up_bank", Update::muon, {4, 8, 4});
  add("lone_matrix", Update::muon, {3, 8});
  add("lone_twin", Update::muon, {3, 8});
  add("scalar_bank", Update::scalar, {2, 4, 4});
  add("projection", Update::scalar, {3, 6});
  add("head", Update::head, {40, 6});
  add("large_head", Update::head, {1100, 1000});
  add("mtp_head", record_quirks ? Update::none : Update::head, {40, 6});
  return table;
}

// Sum over these ranks of what each draws, times a factor each. They draw eighths of whole numbers,
// which even bf16 adds up without rounding: sums are the same bits in whatever order.
at::Tensor gradient_of(const Parameter& row, std::size_t number, const std::vector<int>& ranks,
                       int step, const std::vector<double>& factors = {}) {
  return drawn(row.value.sizes(), [&](at::IntArrayRef shape) {
    auto sum = at::zeros(shape, at::kDouble);
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      const auto seed =
          1000 * number + 100 * static_cast<std::size_t>(step) + static_cast<std::size_t>(ranks[k]);
      const auto eighths = test::integers(shape, 17, seed).sub(8).to(at::kDouble).div_(8);
      sum += eighths * (factors.empty() ? 1.0 : factors[k]);
    }
    return sum.to(row.value.scalar_type());
  });
}

void set_gradients(const ParameterTable& table, const std::vector<int>& ranks, int step,
                   const std::vector<double>& factors = {}) {
  for (std::size_t i = 0; i < table.rows().size(); ++i) {
    const auto& row = table.rows()[i];
    if (row.name == "unused") continue;
    test::set_gradient(row.value, gradient_of(row, i, ranks, step, factors));
  }
}

std::vector<int> all_of(int world) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world; ++rank) ranks.push_back(rank);
  return ranks;
}

OptimConfig rates() {
  OptimConfig o;
  o.tied_embed_lr = o.embed_lr = 0.05;
  o.scalar_lr = o.head_lr = o.matrix_lr = 0.03;
  o.adam_wd = o.muon_wd = 0.1;
  return o;
}

// What a rank trains, by itself or as one of many.
struct Training {
  Training(Communicator& communicator, at::ScalarType reduce_dtype = at::kFloat,
           bool record_quirks = false)
      : table(make_table(record_quirks)),
        optimizer(table, rates(), {.matrices = reduce_dtype, .record_quirks = record_quirks},
                  communicator) {}

  // → the norm. The update is skipped where the norm is not finite, as TrainStep does.
  double step(double max_norm) {
    optimizer.reduce(at::zeros({1}, at::kFloat), max_norm);
    const auto norm = optimizer.clip(max_norm);
    gradients = test::gradients_of(table);
    auto scalars = test::scalars(0.5, 0.9);
    scalars.skip = norm.isfinite().logical_not().to(at::kFloat);
    optimizer.step(scalars);
    return norm.item<double>();
  }

  ParameterTable table;
  Optimizer optimizer;
  NamedTensors gradients;  // that the last step used
};

TEST(Reduction, EveryRankGetsTheSumOfWhatItUpdates) {
  for (const int world : kWorlds) {
    const auto sums = make_table();
    set_gradients(sums, all_of(world), /*step=*/0);
    as_ranks(world, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      const auto table = make_table();
      Reduction reduction(table, communicator, at::kFloat);
      const auto numbers = at::full({2}, rank + 0.5, at::kFloat);
      // Twice: the second time buffers are there already.
      for (int i = 0; i < 2; ++i) {
        set_gradients(table, {rank}, 0);
        reduction.reduce(numbers.fill_(rank + 0.5));
      }
      double expected_number = 0;
      for (int other = 0; other < world; ++other) expected_number += other + 0.5;
      EXPECT_TRUE(test::is_close(numbers, at::full({2}, expected_number), 0, 0));

      double squares = 0;
      for (const auto& row : table.rows()) {
        const auto own = reduction.gradient(row);
        if (row.name == "unused") {
          EXPECT_FALSE(own.defined());
          continue;
        }
        auto sum = sums[row.name].grad();
        squares += sum.to(at::kDouble).square().sum().item<double>();
        if (row.reduction() == GradientReduction::reduce_scatter) {
          sum = as_chunks(sum, row.update);
          const auto [first, count, per_rank] = chunks_of_rank(sum.size(0), communicator);
          sum = sum.narrow(0, first, count);
        }
        EXPECT_TRUE(test::is_same(own, sum)) << row.name << " on rank " << rank << " of " << world;
      }
      // fp32; and the part of the bf16 table, under a thousandth of the squares, to 2^-8.
      EXPECT_NEAR(reduction.norm().item<double>() / std::sqrt(squares), 1, 5e-6);
    });
  }
}

// Half of the bytes of what is the most of GPT-124M's reduction; AdamW steps in fp32.
TEST(Reduction, ALargeHeadTravelsBetweenRanksInTheMatricesFormat) {
  for (const int world : {1, 2, 3}) {
    as_ranks(world, [&](Communicator& communicator) {
      const auto table = make_table();
      Reduction reduction(table, communicator, at::kBFloat16);
      // bf16 keeps 8 bits. Twice: the second time buffers are there already.
      for (int i = 0; i < 2; ++i) {
        for (const auto& row : table.rows())
          test::set_gradient(row.value, at::full(row.value.sizes(), 1 + 0x1p-10));
        reduction.reduce(at::zeros({1}, at::kFloat));
        for (const auto& row : table.rows()) {
          if (row.name != "large_head" && row.name != "large_table") continue;
          const bool rounded = row.name == "large_head" && world > 1;
          const auto found = reduction.gradient(row);
          EXPECT_EQ(found.scalar_type(), at::kFloat);
          EXPECT_TRUE(
              test::is_same(found, at::full_like(found, world * (rounded ? 1 : 1 + 0x1p-10))))
              << row.name << " of " << world;
        }
      }
    });
  }
}

void expect_close_weights(const ParameterTable& actual, const ParameterTable& expected,
                          const std::string& where) {
  for (const auto& row : expected.rows()) {
    const auto& value = actual[row.name];
    // Weights of up to 4 round by 2e-7 in fp32 and by 2^-7 in bf16; what the norm rounds, banks'
    // updates amplify by up to 3.4445^5, times a rate of 0.015.
    const double tolerance = value.scalar_type() == at::kBFloat16 ? 1.0 / 128 : 3e-6;
    EXPECT_TRUE(test::is_close(value.detach(), row.value.detach(), 0, tolerance))
        << row.name << where;
  }
}

TEST(Reduction, RanksTrainAsOneThatHasTheSumOfTheirGradients) {
  constexpr int kSteps = 3;
  constexpr double kMaxNorm = 1.0;
  for (const int world : kWorlds) {
    Communicator nobody;
    Training alone(nobody);
    std::array<double, kSteps> norms;
    for (int step = 0; step < kSteps; ++step) {
      set_gradients(alone.table, all_of(world), step);
      norms[static_cast<std::size_t>(step)] = alone.step(kMaxNorm);
    }
    as_ranks(world, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      Training own(communicator);
      for (int step = 0; step < kSteps; ++step) {
        set_gradients(own.table, {rank}, step);
        EXPECT_NEAR(own.step(kMaxNorm) / norms[static_cast<std::size_t>(step)], 1, 1e-6);
      }
      expect_close_weights(own.table, alone.table, fmt::format(" on {} of {}", rank, world));
      // Each rank keeps the state of its own chunks only.
      std::set<std::string> names, expected;
      for (const auto& [name, value] : own.optimizer.sharded_state()) names.insert(name);
      for (const auto& row : own.table.rows()) {
        if (row.reduction() != GradientReduction::reduce_scatter) continue;
        const auto n = as_chunks(row.value, row.update).size(0);
        const auto per_rank = (n + world - 1) / world;
        for (auto chunk = rank * per_rank; chunk < std::min((rank + 1) * per_rank, n); ++chunk) {
          const auto of_chunk = fmt::format("{}.{}", row.name, chunk);
          if (row.update.by_matrix()) {
            expected.insert("momentum." + of_chunk);
          } else {
            expected.insert({"exp_avg." + of_chunk, "exp_avg_sq." + of_chunk});
          }
        }
      }
      EXPECT_EQ(names, expected) << rank << " of " << world;
    });
  }
}

TEST(Reduction, EveryRankHasTheSameBitsAfterwards) {
  for (const auto reduce_dtype : {at::kFloat, at::kBFloat16}) {
    for (const int world : {2, 3, 5}) {
      std::vector<NamedTensors> weights(static_cast<std::size_t>(world));
      as_ranks(world, [&](Communicator& communicator) {
        const auto rank = static_cast<std::uint64_t>(communicator.rank());
        Training own(communicator, reduce_dtype);
        for (std::uint64_t step = 0; step < 3; ++step) {
          // These do round as they add up.
          for (std::size_t i = 0; i < own.table.rows().size(); ++i) {
            const auto& value = own.table.rows()[i].value;
            test::set_gradient(value, normal(value.sizes(), 1000 * i + 100 * step + rank));
          }
          own.step(1.0);
        }
        weights[rank] = test::clones(own.table.named_values());
      });
      for (const auto& other : weights) test::expect_same(other, weights[0]);
    }
  }
}

TEST(Reduction, RanksWithoutBanksHaveTheNormOfOne) {
  const auto norm_on = [](Communicator& communicator) {
    ParameterTable table;
    const auto value = at::zeros({4, 8, 4});
    table.add({.name = "up_bank", .value = value, .update = Update::scalar});
    Reduction reduction(table, communicator, at::kFloat);
    test::set_gradient(value, at::ones_like(value.detach()));
    reduction.reduce(at::zeros({1}));
    return reduction.norm().item<double>();
  };
  as_ranks(2, [&](Communicator& communicator) {
    EXPECT_NEAR(norm_on(communicator), 2 * std::sqrt(128.0), 1e-4);
  });
}

TEST(Reduction, AParameterWithoutGradientStaysAsItIs) {
  const auto before = make_table();
  for (const int world : {1, 3}) {
    as_ranks(world, [&](Communicator& communicator) {
      Training own(communicator);
      set_gradients(own.table, {communicator.rank()}, 0);
      own.step(1.0);
      for (const auto& row : before.rows()) {
        const bool stays = at::equal(own.table[row.name].detach(), row.value.detach());
        EXPECT_EQ(stays, row.name == "unused") << row.name;
      }
    });
  }
}

void expect_that_all_skip(const char* where, double bad, bool record_quirks) {
  as_ranks(3, [&](Communicator& communicator) {
    Training own(communicator, at::kFloat, record_quirks);
    set_gradients(own.table, {communicator.rank()}, 0);
    own.step(1.0);
    const auto weights = test::clones(own.table.named_values());
    const auto state = test::clones(test::state_of(own.optimizer));
    const auto kept = test::clones(own.optimizer.kept_gradients());
    set_gradients(own.table, {communicator.rank()}, 1);
    if (communicator.rank() == 1) own.table[where].grad().view(-1)[5] = bad;
    EXPECT_FALSE(std::isfinite(own.step(1.0))) << where << " on rank " << communicator.rank();
    test::expect_same(own.table.named_values(), weights);
    test::expect_same(test::state_of(own.optimizer), state);
    test::expect_same(own.optimizer.kept_gradients(), kept);
  });
}

TEST(Reduction, ANonFiniteGradientOnOneRankMakesAllSkip) {
  for (const auto* where : {"one_bank", "down_bank", "large_table", "gains", "half_table"}) {
    expect_that_all_skip(where, std::nan(""), /*record_quirks=*/false);
  }
  expect_that_all_skip("up_bank", HUGE_VAL, /*record_quirks=*/false);
}

TEST(Reduction, ANonFiniteGradientOnOneRankMakesAllSkipWithTheScriptsQuirks) {
  expect_that_all_skip("down_bank", std::nan(""), /*record_quirks=*/true);
}

// The global norm of this rank's own gradients.
double own_norm(const ParameterTable& table, int rank, int step) {
  double squares = 0;
  for (std::size_t i = 0; i < table.rows().size(); ++i) {
    const auto& row = table.rows()[i];
    if (row.name == "unused") continue;
    squares += gradient_of(row, i, {rank}, step).to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(squares);
}

TEST(Reduction, WithTheScriptsQuirksEachRankClipsItsOwnGradients) {
  constexpr double kMaxNorm = 1.0;
  for (const int world : {1, 2, 5}) {
    // As the reference implementation divides by a rank's own micro-batches, its norm is W
    // times as much.
    auto sums = make_table();
    std::vector<double> norms, factors;
    for (int rank = 0; rank < world; ++rank) {
      norms.push_back(world * own_norm(sums, rank, 0));
      factors.push_back(kMaxNorm / (norms.back() + 1e-6));
    }
    set_gradients(sums, all_of(world), 0, factors);
    as_ranks(world, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      Training own(communicator, at::kFloat, /*record_quirks=*/true);
      set_gradients(own.table, {rank}, 0);
      const auto alone = own.table["mtp_head"].grad().clone();
      const auto number = static_cast<std::size_t>(rank);
      EXPECT_NEAR(own.step(kMaxNorm) / norms[number], 1, 5e-6);
      // The multi-token heads' gradients stay with their rank, but are clipped with the others.
      EXPECT_TRUE(
          test::is_close(test::named(own.gradients, "mtp_head"), alone * factors[number], 1e-5, 0));
      for (const auto& row : sums.rows()) {
        if (row.name == "unused" || row.name == "mtp_head") continue;
        auto expected = row.value.grad();
        auto actual = test::named(own.gradients, row.name);
        if (row.reduction() == GradientReduction::reduce_scatter) {
          expected = as_chunks(expected, row.update);
          const auto [first, chunks, per_rank] = chunks_of_rank(expected.size(0), communicator);
          if (chunks == 0) continue;
          expected = expected.narrow(0, first, chunks);
          // The first step's momentum is the gradient; of Adam's first moment a tenth.
          actual = row.update.by_matrix()
                       ? test::chunks_of(own.optimizer.sharded_state(), "momentum." + row.name)
                       : test::chunks_of(own.optimizer.sharded_state(), "exp_avg." + row.name) * 10;
        }
        // Gradients of up to one, times a factor of a thousandth or less: fp32, and bf16 rounds
        // both factor and sum to 2^-8.
        const double tolerance = row.value.scalar_type() == at::kBFloat16 ? 1e-2 : 2e-6;
        EXPECT_TRUE(test::is_close(actual, expected, 0, tolerance * world * factors[0]))
            << row.name << " on rank " << rank << " of " << world;
      }
    });
  }
}

}  // namespace
}  // namespace tg
