#include "optim/optimizer.h"

#include "ops/optim/orthogonalize.h"
#include "optim/adam.h"
#include "tests/optim/optimizer_fixture.h"

namespace tg {
namespace {

using test::config_with_every_part, test::distinct_rates;
using Fixture = test::OptimizerFixture;

using Numbers = std::vector<std::pair<Update, double>>;

double number_of(const Update& update, const Numbers& numbers) {
  for (const auto& [known, number] : numbers) {
    if (update.differs_only_in_multipliers(known)) return number;
  }
  ADD_FAILURE() << "an update that the test does not know";
  return 0;
}

std::vector<double> singular_values(const at::Tensor& matrices) {
  return test::values_of(std::get<1>(at::linalg_svd(matrices, false)));
}

// Adam's first step has the size of its rate whatever the gradient: m̂/√v̂ is its sign.
double first_step_size(const at::Tensor& before, const at::Tensor& after) {
  return (before - after.detach()).abs().to(at::kDouble).median().item<double>();
}

void expect_rates(bool tied) {
  auto model = config_with_every_part();
  model.tie_embeddings = tied;
  Fixture f(model, distinct_rates(), {});
  const auto before = f.weights();
  f.set_gradients();
  f.step(test::scalars(0.5, 0.9));
  const Numbers rates = {{tied ? Update::tied_embedding : Update::embedding, tied ? 0.25 : 0.5},
                         {Update::scalar, 0.125},
                         {Update::head, 0.0625}};
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto& row = f.table.rows()[i];
    if (row.update.by_matrix()) continue;
    // fp32 weights of up to 4 round by 2e-7.
    EXPECT_NEAR(first_step_size(before[i].second, row.value), number_of(row.update, rates) * 0.5,
                2e-6)
        << row.name;
  }
}

// Without a gradient a first step is decay alone.
TEST(Optimizer, EmbeddingsDecayByAdamWdOrTheirOwn) {
  for (const bool own : {false, true}) {
    auto optim = distinct_rates();
    optim.adam_wd = 0.5;
    if (own) optim.embed_wd = {.value = 0.25};
    Fixture f(config_with_every_part(), optim, {});
    const auto before = f.weights();
    f.set_gradients(/*size=*/0);
    f.step(test::scalars(1));
    for (std::size_t i = 0; i < before.size(); ++i) {
      const auto& row = f.table.rows()[i];
      const Numbers kept = {{Update::embedding, 1 - 0.5 * (own ? 0.25 : 0.5)},
                            {Update::scalar, 1 - 0.125 * 0.5},
                            {Update::head, 1},
                            {Update::muon, 1}};
      EXPECT_TRUE(test::is_close(row.value.detach(), before[i].second * number_of(row.update, kept),
                                 1e-6, 0))
          << row.name;
    }
  }
}

TEST(Optimizer, ARowHasItsOwnBetasAndMultipliers) {
  auto optim = distinct_rates();
  optim.beta1 = 0.65;
  optim.adam_wd = 0.5;
  optim.adam_eps = 1e-10;
  const Update plain{
      .rule = UpdateRule::adam, .lr = &OptimConfig::scalar_lr, .weight_decay = adam_wd};
  auto own = plain;
  own.betas = {.beta1 = 0.75, .beta2 = 0.99};
  own.lr_multiplier = 0.25;
  own.wd_multiplier = 3;
  for (const bool cautious : {false, true}) {
    optim.cautious_wd = cautious;
    ParameterTable table;
    table.add({.name = "plain", .value = test::normal({4, 8}, 1), .update = plain});
    table.add({.name = "own", .value = test::normal({4, 8}, 2), .update = own});
    Communicator alone;
    Optimizer optimizer(table, optim, {}, alone);
    std::vector<std::unique_ptr<Adam>> expected;
    std::vector<ParameterTable> copies(2);
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const auto& row = table.rows()[i];
      copies[i].add({.name = row.name, .value = row.value.detach().clone(), .update = row.update});
      expected.push_back(std::make_unique<Adam>(test::rows_of(copies[i]),
                                                AdamOptions{.lr = i == 0 ? 0.125 : 0.125 * 0.25,
                                                            .weight_decay = i == 0 ? 0.5 : 1.5,
                                                            .beta1 = i == 0 ? 0.65 : 0.75,
                                                            .beta2 = i == 0 ? 0.95 : 0.99,
                                                            .epsilon = 1e-10,
                                                            .cautious = cautious},
                                                alone));
    }
    for (std::uint64_t step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < copies.size(); ++i) {
        const auto gradient = test::normal({4, 8}, 10 * step + i);
        test::set_gradient(table.rows()[i].value, gradient);
        expected[i]->step(test::scalars(0.5), {gradient}, /*clip=*/{});
      }
      optimizer.reduce(at::zeros({1}, at::kFloat), /*max_norm=*/0);
      optimizer.clip(0);
      optimizer.step(test::scalars(0.5));
      for (std::size_t i = 0; i < copies.size(); ++i)
        EXPECT_TRUE(
            test::is_same(table.rows()[i].value.detach(), copies[i].rows()[0].value.detach()))
            << table.rows()[i].name << " step " << step;
    }
  }
}

TEST(Optimizer, MuonIteratesAndNormalizesAsItsSettingsSay) {
  for (const auto coefficients : {MuonCoefficients::quintic, MuonCoefficients::polar_express}) {
    for (const bool normalizes : {false, true}) {
      auto optim = distinct_rates();
      optim.muon_backend_steps = 3;
      optim.muon_coefficients = coefficients;
      optim.muon_row_normalize = normalizes;
      Fixture f(config_with_every_part(), optim, {});
      const auto before = f.weights();
      f.set_gradients();
      f.step(test::scalars(1));  // without momentum
      const OrthogonalizeOptions options{
          .steps = coefficients == MuonCoefficients::quintic ? muon_quintic(3) : polar_express(3),
          .normalize_rows = normalizes};
      for (std::size_t i = 0; i < before.size(); ++i) {
        const auto& row = f.table.rows()[i];
        if (!row.update.by_matrix() || row.value.dim() != 3) continue;
        const double shape = std::sqrt(std::max(
            1.0, static_cast<double>(row.value.size(1)) / static_cast<double>(row.value.size(2))));
        const auto update = orthogonalize(test::named(f.gradients, row.name), options);
        EXPECT_TRUE(test::is_close(row.value.detach(), before[i].second - 0.03125 * shape * update,
                                   0, 1e-5))
            << row.name;
      }
    }
  }
}

TEST(Optimizer, EachGroupHasItsRate) {
  expect_rates(/*tied=*/false);
}
TEST(Optimizer, TiedTablesHaveTheirOwnRate) {
  expect_rates(/*tied=*/true);
}

TEST(Optimizer, BanksStepByMuonAtTheirOwnRate) {
  Fixture f(config_with_every_part(), distinct_rates(), {});
  const auto before = f.table["mlp_up_bank"].detach().clone();  // 24 rows of 8
  f.set_gradients();
  f.step(test::scalars(1, 0.9));
  const auto step = (before - f.table["mlp_up_bank"].detach()) / (0.03125 * std::sqrt(3.0));
  for (const double s : singular_values(step)) {  // nearly orthogonal
    EXPECT_GT(s, 0.6);
    EXPECT_LT(s, 1.3);
  }
  EXPECT_EQ(test::momentum_of(f.optimizer.sharded_state(), "mlp_up_bank").sizes(), before.sizes());
}

// Its first step, in which the second moments are a twentieth of the update's own.
TEST(Optimizer, NorMuonTakesMuonsPlaceForEveryMatrix) {
  auto optim = distinct_rates();
  optim.normuon = true;
  Fixture f(config_with_every_part(), optim, {});
  const auto before = f.table["mlp_up_bank"].detach().clone();  // 24 rows of 8
  f.set_gradients();
  f.step(test::scalars(1, 0.75));
  const auto gradient = test::named(f.gradients, "mlp_up_bank") * (1 - 0.75 * 0.75);
  const auto x =
      orthogonalize(gradient, {.steps = muon_quintic(5), .safety = 1.02, .epsilon = 1e-6});
  const auto y = x / x.square().mean({-1}, /*keepdim=*/true).sqrt();
  const auto norm = [](const at::Tensor& z) { return z.norm(2, {-2, -1}, /*keepdim=*/true); };
  const auto expected = before - 0.03125 * std::sqrt(3.0) * y * norm(x) / norm(y);
  // fp32, amplified by the iteration, times the rate.
  EXPECT_TRUE(test::is_close(f.table["mlp_up_bank"], expected, 0, 1e-5));
  const auto state = f.optimizer.sharded_state();
  for (const auto& row : f.table.rows()) {
    if (!row.update.by_matrix()) continue;
    EXPECT_GT(test::chunks_of(state, "second_momentum." + row.name).numel(), 0) << row.name;
  }
}

TEST(Optimizer, DecayReachesAllButTheHeads) {
  auto optim = distinct_rates();
  optim.adam_wd = 0.5;
  optim.muon_wd = 0.25;
  Fixture f(config_with_every_part(), optim, {});
  const auto before = f.weights();
  f.set_gradients(0);  // Adam's step on a zero gradient is zero, Muon's too
  f.step(test::scalars(1, 0.9));
  const Numbers kept = {{Update::embedding, 1 - 0.5 * 0.5},
                        {Update::scalar, 1 - 0.125 * 0.5},
                        {Update::muon, 1 - 0.03125 * 0.25},
                        {Update::head, 1}};
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto& row = f.table.rows()[i];
    // fp32: two roundings.
    EXPECT_TRUE(test::is_close(row.value, before[i].second * number_of(row.update, kept), 3e-7, 0))
        << row.name;
  }
}

TEST(Optimizer, MultiTokenHeadsFollowTheHeadUnlessTheScriptsQuirkIsAsked) {
  for (const bool quirks : {false, true}) {
    Fixture f(config_with_every_part(), distinct_rates(), {.record_quirks = quirks});
    const auto before = f.table["mtp_heads.0.weight"].detach().clone();
    f.set_gradients();
    f.step(test::scalars(1, 0.9));
    EXPECT_EQ(at::equal(f.table["mtp_heads.0.weight"].detach(), before), quirks);
    EXPECT_FALSE(at::equal(f.table["lm_head.weight"].detach(), before));
    for (const auto& row : f.table.rows()) {
      EXPECT_FALSE(row.value.grad().any().item<bool>()) << row.name;
    }
    EXPECT_EQ(f.optimizer.kept_gradients().size(), quirks ? 1u : 0u);
    for (const auto& [name, value] : test::state_of(f.optimizer)) {
      EXPECT_TRUE(!quirks || name.find("mtp_heads") == std::string::npos) << name;
    }
  }
}

TEST(Optimizer, PatternsMoveBanksAndTablesOfAnyFormatToTheScalarsRate) {
  auto patterns = default_control_patterns();
  patterns.insert(patterns.end(), {"qo_bank", "bigram.embed", "lm_head"});
  Fixture f(config_with_every_part(), distinct_rates(), {}, at::kBFloat16, patterns);
  const auto before = f.weights();
  f.set_gradients();
  f.step(test::scalars(1, 0.9));
  for (const auto* name : {"qo_bank", "bigram.embed.weight", "lm_head.weight"}) {
    // A bf16 weight under 4 is rounded to 2^-7, half of that off at most.
    EXPECT_NEAR(first_step_size(test::named(before, name), f.table[name]), 0.125, 1.0 / 256)
        << name;
    const auto state = test::state_of(f.optimizer);
    EXPECT_EQ(test::named(state, std::string("exp_avg.") + name).sizes(), f.table[name].sizes());
  }
}

TEST(Optimizer, AMatrixThatNoPatternNamesIsSteppedByMuonOnItsOwn) {
  Fixture f(config_with_every_part(), distinct_rates(), {}, at::kFloat, {"attn_gate"});
  const auto before = f.table["blocks.1.resid_mix"].detach().clone();  // 2 rows of 8
  f.set_gradients();
  f.step(test::scalars(1, 0.9));
  const auto step = (before - f.table["blocks.1.resid_mix"].detach()) / 0.03125;
  for (const double s : singular_values(step)) {
    EXPECT_GT(s, 0.6);
    EXPECT_LT(s, 1.3);
  }
  EXPECT_EQ(test::momentum_of(f.optimizer.replicated_state(), "blocks.1.resid_mix").sizes(),
            (std::vector<std::int64_t>{1, 2, 8}));
}

}  // namespace
}  // namespace tg
