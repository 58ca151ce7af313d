#include "model/tied_rows.h"

#include "tests/comm/ranks.h"
#include "tests/optim/helpers.h"

namespace tg {
namespace {

constexpr int kSplit = 3, kSteps = 8;  // Adam's updates are steps 1, 3, 5 and 7

OptimConfig config() {
  OptimConfig o;
  o.head_lr = 0.03;
  o.embed_lr = 0.05;
  o.beta1 = 0.5;
  o.adam_wd = 0.1;
  o.adam_eps = 1e-10;
  o.cautious_wd = true;
  o.adam_every = 2;
  o.untie_embeddings_at = kSplit;
  return o;
}

Update by_adam(double OptimConfig::*lr, ParameterId tied_to = {}) {
  return {.rule = UpdateRule::adam,
          .lr = lr,
          .weight_decay = adam_wd,
          .every = &OptimConfig::adam_every,
          .tied_to = tied_to};
}

// An embedding [V, D] that is tied to a head of another shape or the same, declared after it, and a
// bank that every step updates.
ParameterTable make_table(std::int64_t vocab, std::int64_t dim, bool transposed,
                          at::ScalarType dtype) {
  // A pattern of few rows: large tables are drawn fast.
  const auto embedding = test::normal({8, dim}, 1, dtype).repeat({vocab / 8, 1});
  const auto head = transposed ? embedding.t().contiguous() : embedding.clone();
  ParameterTable table;
  table.add({.name = "embedding",
             .value = embedding,
             .update = by_adam(&OptimConfig::embed_lr, /*tied_to=*/{1})});
  table.add({.name = "head", .value = head, .update = by_adam(&OptimConfig::head_lr)});
  table.add({.name = "bank", .value = test::normal({2, 4, 6}, 2, dtype), .update = Update::muon});
  return table;
}

// Sum over these ranks of eighths of whole numbers, so that sums have the same bits in whatever
// order; [V, D].
at::Tensor gradient_of(std::int64_t vocab, std::int64_t dim, int step, int of,
                       const std::vector<int>& ranks) {
  auto sum = at::zeros({8, dim});
  for (const int rank : ranks) {
    const auto seed = static_cast<std::uint64_t>(100 * step + 10 * rank + of);
    sum += test::integers({8, dim}, 17, seed).sub(8).to(at::kFloat).div_(8);
  }
  return sum.repeat({vocab / 8, 1});
}

struct Training {
  Training(Communicator& communicator, std::int64_t v, std::int64_t d, bool is_transposed,
           at::ScalarType dtype = at::kFloat)
      : vocab(v),
        dim(d),
        transposed(is_transposed),
        table(make_table(v, d, is_transposed, dtype)),
        optimizer(table, config(), {.matrices = dtype}, communicator) {}

  // By the sums of these ranks' gradients → the norm.
  double step(int index, const std::vector<int>& ranks, double skip = 0) {
    optimizer.choose_rows(updates_all(config(), index), tie_at(config(), index));
    optimizer.begin_step();
    for (const int of : {0, 1}) {
      auto gradient = gradient_of(vocab, dim, index, of, ranks);
      if (of == 1 && transposed) gradient = gradient.t().contiguous();
      test::set_gradient(table.rows()[static_cast<std::size_t>(of)].value, gradient);
    }
    test::set_gradient(table["bank"], at::zeros({2, 4, 6}));
    optimizer.reduce(at::zeros({1}, at::kFloat), /*max_norm=*/0);
    const auto norm = optimizer.clip(0);
    optimizer.step(test::scalars(0.5, 0.9, skip));
    return norm.item<double>();
  }
  at::Tensor embedding() const { return table["embedding"].detach(); }
  // [V, D], as the embedding has it.
  at::Tensor head() const {
    const auto value = table["head"].detach();
    return transposed ? value.t() : value;
  }
  at::Tensor state(const std::string& name) const {
    return test::named(optimizer.replicated_state(), name);
  }

  const std::int64_t vocab, dim;
  const bool transposed;
  ParameterTable table;
  Optimizer optimizer;
};

// Adam with cautious decay, as the formula is written.
struct Moments {
  at::Tensor p, m = at::zeros_like(p), v = at::zeros_like(p);
  int t = 0;

  void step(const at::Tensor& g, double lr) {
    const auto o = config();
    ++t;
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const double correction = std::sqrt(1 - std::pow(o.beta2, t)) / (1 - std::pow(o.beta1, t));
    const auto u = lr * correction * m / (v.sqrt() + o.adam_eps);
    p = p - u - at::where(u * p > 0, lr * lr * o.adam_wd * p, 0.0);
  }
};

TEST(TiedRows, AreOneUntilTheSplitAndThenTwoWithTheSameMoments) {
  Communicator alone;
  for (const bool transposed : {false, true}) {
    Training training(alone, 16, 5, transposed, at::kDouble);
    Moments head{training.head().clone()}, embedding = head;
    at::Tensor sums[2];
    for (int step = 0; step < kSteps; ++step) {
      const double norm = training.step(step, {0});
      if (step % 2 == 0) {
        for (const int of : {0, 1}) sums[of] = gradient_of(16, 5, step, of, {0}).to(at::kDouble);
        EXPECT_EQ(norm, 0) << "neither takes part in step " << step;
        continue;
      }
      for (const int of : {0, 1}) sums[of] += gradient_of(16, 5, step, of, {0});
      const auto both = at::cat({sums[0], sums[1]});
      if (step <= kSplit) {
        head.step(sums[0] + sums[1], 0.03 * 0.5);
        embedding = head;
        EXPECT_NEAR(norm / (sums[0] + sums[1]).norm().item<double>(), 1, 1e-6);
      } else {
        head.step(sums[1], 0.03 * 0.5);
        embedding.step(sums[0], 0.05 * 0.5);
        EXPECT_NEAR(norm / both.norm().item<double>(), 1, 1e-6);
      }
      // Rates are fp32 numbers, 2^-24 relative.
      EXPECT_TRUE(test::is_close(training.head(), head.p, 0, 1e-8)) << step << transposed;
      EXPECT_TRUE(test::is_close(training.embedding(), embedding.p, 0, 1e-8)) << step << transposed;
      EXPECT_EQ(test::is_same(training.embedding(), training.head().contiguous()), step <= kSplit);
      // The tied row's state is untouched before the split.
      EXPECT_EQ(training.state("step.embedding").item<double>(), step < kSplit ? 0 : embedding.t);
      EXPECT_EQ(training.state("exp_avg.embedding").any().item<bool>(), step >= kSplit);
    }
  }
}

TEST(TiedRows, ASkippedSplitChangesNoWeightAndCopiesTheState) {
  Communicator alone;
  Training training(alone, 16, 5, /*transposed=*/true);
  for (int step = 0; step < kSplit; ++step) training.step(step, {0});
  const auto before = training.head().clone();
  training.step(kSplit, {0}, /*skip=*/1);
  EXPECT_TRUE(test::is_same(training.head().contiguous(), before.contiguous()));
  EXPECT_TRUE(test::is_same(training.embedding(), before.contiguous()));
  EXPECT_EQ(training.state("step.embedding").item<double>(), 1);
  EXPECT_TRUE(test::is_same(training.state("exp_avg_sq.embedding"),
                            training.state("exp_avg_sq.head").t().contiguous()));
}

// Large enough to be sharded, by chunks of the rows of either shape.
TEST(TiedRows, RanksUpdateTheirShardsAsOneUpdatesBoth) {
  constexpr std::int64_t kVocab = 8192, kDim = 128;
  constexpr int kRanksSteps = 6;  // the last one updates each by itself
  Communicator alone;
  for (const bool transposed : {false, true}) {
    Training one(alone, kVocab, kDim, transposed);
    ASSERT_EQ(one.table.rows()[0].reduction(), GradientReduction::reduce_scatter);
    for (int step = 0; step < kRanksSteps; ++step) one.step(step, {0, 1});
    const auto expected = test::clones(one.optimizer.sharded_state());
    for (const int world : {2, 5}) {  // 5 ranks need padded copies of the chunks
      test::as_ranks(world, [&](Communicator& communicator) {
        Training shared(communicator, kVocab, kDim, transposed);
        const std::vector<int> own =
            communicator.rank() < 2 ? std::vector{communicator.rank()} : std::vector<int>{};
        for (int step = 0; step < kRanksSteps; ++step) {
          shared.step(step, own);
          EXPECT_EQ(test::is_same(shared.embedding(), shared.head().contiguous()), step < 5);
        }
        // Where a vector of the CPU's kernel ends, it rounds otherwise.
        EXPECT_TRUE(test::is_close(shared.head(), one.head(), 1e-6, 1e-6));
        EXPECT_TRUE(test::is_close(shared.embedding(), one.embedding(), 1e-6, 1e-6));
        for (const auto& [name, value] : shared.optimizer.sharded_state())
          EXPECT_TRUE(test::is_close(value, test::named(expected, name), 1e-6, 1e-6)) << name;
      });
    }
  }
}

TEST(TiedRows, AreEqualWhereTheDtypeWithFewerBitsIs) {
  for (const bool transposed : {false, true}) {
    auto table = make_table(16, 5, transposed, at::kFloat);
    ParameterTable mixed;
    for (const auto& row : table.rows()) {
      auto other = row;
      if (row.name == "embedding") other.value = row.value.detach().to(at::kBFloat16);
      mixed.add(other);
    }
    const auto tied = tied_rows(mixed);
    ASSERT_EQ(tied.size(), 1u);
    EXPECT_TRUE(is_equal(tied[0]));
    EXPECT_FALSE(at::equal(mixed["embedding"].to(at::kFloat), table["embedding"]));
    mixed["head"].detach().view({-1})[7] += 1;
    EXPECT_FALSE(is_equal(tied[0]));
    copy_tied_values(tied);
    EXPECT_TRUE(is_equal(tied[0]));
  }
}

}  // namespace
}  // namespace tg
