#include "optim/normuon.h"

#include "optim/muon.h"
#include "tests/comm/ranks.h"
#include "tests/optim/helpers.h"
#include "tests/optim/records.h"

namespace tg {
namespace {

constexpr double kBeta2 = 0.95, kRate = 0.03, kDecay = 1.2;

MuonOptions options_of(bool cautious, at::ScalarType dtype = at::kFloat) {
  return {.lr = kRate,
          .weight_decay = kDecay,
          .cautious = cautious,
          .steps = polar_express(5),
          .dtype = dtype};
}

ParameterTable table_of(const NamedTensors& banks, double lr_multiplier = 1) {
  auto update = Update::muon;
  update.lr_multiplier = lr_multiplier;
  return test::table_of(banks, update);
}

// NorMuon or Muon on one rank.
template <class Rule>
class Alone {
 public:
  template <class... Options>
  explicit Alone(ParameterTable table, const MuonOptions& options, Options... others)
      : table_(std::move(table)), rule_(test::rows_of(table_), options, others..., alone_) {}
  void step(const StepScalars& scalars, const std::vector<at::Tensor>& gradients) {
    rule_.step(scalars, gradients, at::ones({}, at::kFloat));
  }
  NamedTensors state() const { return test::state_of(rule_); }

 private:
  Communicator alone_;
  ParameterTable table_;
  Rule rule_;
};

// One matrix of any shape, as the formula is written.
struct Matrix {
  at::Tensor p, b = at::zeros_like(p), q = {};

  at::Tensor update_of(const at::Tensor& g, double mu) {
    b = b + (1 - mu) * (g - b);
    const auto x = orthogonalize(g + mu * (b - g),
                                 {.steps = polar_express(5), .safety = 1.02, .epsilon = 1e-6});
    const auto mean = x.square().mean({p.size(0) > p.size(1) ? 1 : 0}, /*keepdim=*/true);
    q = (q.defined() ? q : at::zeros_like(mean)) * kBeta2 + (1 - kBeta2) * mean;
    const auto y = x / q.clamp_min(1e-10).sqrt();
    return y * x.norm() / y.norm().clamp_min(1e-10);
  }
  void step(at::Tensor u, double rate, double multiplier, bool cautious) {
    if (cautious) {
      u = u + at::where(u * p >= 0, kDecay * rate * p, 0.0);
    } else {
      p = p * (1 - rate * kDecay);
    }
    p = p - rate * multiplier * u;
  }
};

// Q, K, V and O are four matrices, all others one; the script's MLP matrices are [D, F] both, so
// that its first is the transpose of ours.
TEST(NorMuon, GivesTheReferenceValuesOfEveryShapeInItsTransposeToo) {
  const auto reference = test::record_43();
  const struct {
    std::string name;
    double multiplier;
    std::int64_t matrices;
  } cases[] = {
      {"qkvo", 1, 4}, {"c_fc", 2, 1}, {"c_proj", 1, 1}, {"attn_gate", 1, 1}, {"smear_gate", 1, 1}};
  for (const auto& [name, multiplier, matrices] : cases) {
    for (const bool transposed : {false, true}) {
      if (transposed && matrices > 1) continue;  // the means of square ones are by column
      const auto value_of = [&, name = name, matrices = matrices](const std::string& what) {
        const auto& stored = reference.at("normuon." + name + "." + what);
        const auto bank = stored.view({matrices, stored.size(0), -1});
        return transposed ? bank.mT().contiguous() : bank;
      };
      const auto bank = value_of("p0").clone().set_requires_grad(true);
      Alone<NorMuon> rule(table_of({{"bank", bank}}, multiplier), options_of(true), kBeta2);
      for (const auto& [step, mu] : {std::pair{"1", 0.85}, {"2", 0.95}}) {
        rule.step(test::scalars(1, mu), {value_of(std::string("g") + step)});
        // fp32, amplified by the iteration where a singular value is small, times the rate.
        EXPECT_TRUE(test::is_close(bank, value_of(std::string("p") + step), 0, 3e-6))
            << name << " step " << step << (transposed ? " transposed" : "");
      }
    }
  }
}

// Q and K in pairs of heads are wide, V and O square, the MLP's matrices tall.
TEST(NorMuon, GivesTheReferenceValuesWithTheMomentsOfSquareMatricesByRow) {
  const auto reference = test::record_89();
  for (const std::string name : {"qk", "vo", "mlp"}) {
    const auto value_of = [&](const char* what) {
      return reference.at("normuon." + name + "." + what);
    };
    auto update = Update::muon;
    update.lr_multiplier = 2;
    update.square_moments_by_row = true;
    auto options = options_of(true);
    options.lr = 0.023;
    const auto bank = value_of("p0").clone().set_requires_grad(true);
    Alone<NorMuon> rule(test::table_of({{"bank", bank}}, update), options, /*beta2=*/0.9);
    rule.step(test::scalars(1, 0.85), {value_of("g1")});
    // fp32, amplified by the iteration where a singular value is small, times the rate.
    EXPECT_TRUE(test::is_close(bank, value_of("p1"), 0, 3e-6)) << name;
    rule.step(test::scalars(0.02 / 0.023, 0.9), {value_of("g2")});
    EXPECT_TRUE(test::is_close(bank, value_of("p2"), 0, 3e-6)) << name;
    EXPECT_TRUE(test::is_close(test::chunks_of(rule.state(), "second_momentum.bank"),
                               value_of("q2"), 1e-4, 0))
        << name;
  }
}

// Two matrices of the script as the rows of one.
TEST(NorMuon, UpdatesTheRowPartsOfAMatrixAsMatrices) {
  const auto reference = test::record_89();
  const auto value_of = [&](const char* what) {
    return reference.at(std::string("normuon.qk.") + what).view({1, 16, 24});
  };
  auto update = Update::muon;
  update.lr_multiplier = 2;
  update.row_parts = 2;
  auto options = options_of(true);
  options.lr = 0.023;
  const auto bank = value_of("p0").clone().set_requires_grad(true);
  Alone<NorMuon> rule(test::table_of({{"bank", bank}}, update), options, /*beta2=*/0.9);
  rule.step(test::scalars(1, 0.85), {value_of("g1")});
  EXPECT_TRUE(test::is_close(bank, value_of("p1"), 0, 3e-6));
  rule.step(test::scalars(0.02 / 0.023, 0.9), {value_of("g2")});
  EXPECT_TRUE(test::is_close(bank, value_of("p2"), 0, 3e-6));
  EXPECT_TRUE(test::is_close(test::chunks_of(rule.state(), "second_momentum.bank").flatten(),
                             reference.at("normuon.qk.q2").flatten(), 1e-4, 0));
}

TEST(NorMuon, FollowsItsFormulaWithEitherDecay) {
  for (const bool cautious : {false, true}) {
    for (const auto& shape : {std::vector<std::int64_t>{3, 8, 8}, {2, 20, 6}, {2, 6, 20}}) {
      const auto bank = test::leaf(shape, 1, at::kDouble);
      Alone<NorMuon> rule(table_of({{"bank", bank}}, 1.5), options_of(cautious, at::kDouble),
                          kBeta2);
      std::vector<Matrix> matrices;
      for (std::int64_t i = 0; i < shape[0]; ++i) matrices.push_back({bank.detach()[i].clone()});
      for (int step = 0; step < 4; ++step) {
        const double scale = 1 - 0.125 * step, mu = 0.75;
        const auto gradient = test::normal(shape, 10 + static_cast<std::uint64_t>(step));
        rule.step(test::scalars(scale, mu), {gradient});
        for (std::int64_t i = 0; i < shape[0]; ++i) {
          auto& matrix = matrices[static_cast<std::size_t>(i)];
          matrix.step(matrix.update_of(gradient[i], mu), kRate * scale, 1.5, cautious);
          // The rate and what decay leaves are fp32 numbers, 2^-24 of weights of up to 4 a step.
          EXPECT_TRUE(test::is_close(bank[i], matrix.p, 0, 1e-6)) << step;
        }
      }
    }
  }
}

TEST(NorMuon, KeepsSecondMomentsOfHiddenChannelsAndOfTheInputsOfSquareMatrices) {
  for (const auto& [shape, moments] :
       {std::pair{std::vector<std::int64_t>{2, 20, 6}, std::vector<std::int64_t>{2, 20, 1}},
        {{2, 6, 20}, {2, 1, 20}},
        {{2, 6, 6}, {2, 1, 6}}}) {
    const auto bank = test::leaf(shape, 2);
    Alone<NorMuon> rule(table_of({{"bank", bank}}), options_of(true, at::kBFloat16), kBeta2);
    const auto state = rule.state();
    const auto second = test::chunks_of(state, "second_momentum.bank");
    EXPECT_EQ(second.sizes(), at::IntArrayRef(moments));
    // Full, also where the iteration is in half precision.
    EXPECT_EQ(second.scalar_type(), at::kFloat);
    EXPECT_EQ(test::momentum_of(state, "bank").scalar_type(), at::kFloat);
  }
}

TEST(NorMuon, ASkippedStepLeavesEveryBit) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto bank = test::leaf({2, 8, 5}, 3);
    Alone<NorMuon> rule(table_of({{"bank", bank}}), options_of(true, dtype), kBeta2);
    const auto expect_skipped = [&] {
      const auto value = bank.detach().clone();
      const auto state = test::clones(rule.state());
      for (const double bad : {std::nan(""), HUGE_VAL, 1.0}) {
        rule.step(test::scalars(1, 0.9, /*skip=*/1), {at::full({2, 8, 5}, bad, dtype)});
        EXPECT_TRUE(test::is_same(bank.detach(), value)) << bad;
        test::expect_same(rule.state(), state);
      }
    };
    expect_skipped();  // the first one
    rule.step(test::scalars(1, 0.9), {test::normal({2, 8, 5}, 4, dtype)});
    EXPECT_FALSE(at::equal(test::momentum_of(rule.state(), "bank"), at::zeros({2, 8, 5})));
    expect_skipped();
  }
}

TEST(NorMuon, RanksStepTheirMatricesAsOneStepsAll) {
  const auto gradient = [](std::uint64_t step) {
    return test::normal({3, 6, 10}, 20 + step, at::kFloat);
  };
  const auto together = test::leaf({3, 6, 10}, 5);
  Alone<NorMuon> one(table_of({{"bank", together}}), options_of(true), kBeta2);
  for (std::uint64_t step = 0; step < 2; ++step) one.step(test::scalars(1, 0.9), {gradient(step)});
  for (const int world : {2, 4}) {
    test::as_ranks(world, [&](Communicator& communicator) {
      const auto bank = test::leaf({3, 6, 10}, 5);
      const auto table = table_of({{"bank", bank}});
      NorMuon rule(test::rows_of(table), options_of(true), kBeta2, communicator);
      const auto [first, count, per_rank] = chunks_of_rank(3, communicator);
      for (std::uint64_t step = 0; step < 2; ++step) {
        for (const auto& complete :
             rule.step(test::scalars(1, 0.9), {gradient(step).narrow(0, first, count)},
                       at::ones({}, at::kFloat)))
          complete();
      }
      // The batched GEMMs may add in another order.
      EXPECT_TRUE(test::is_close(bank, together, 0, 1e-6));
      EXPECT_EQ(rule.sharded_state().size(), 2u * static_cast<std::size_t>(count));
    });
  }
}

TEST(Muon, DecaysCautiouslyWhereItIsTold) {
  const auto bank = test::leaf({1, 20, 6}, 6, at::kDouble);
  Alone<Muon> muon(table_of({{"bank", bank}}, 1.5), options_of(true, at::kDouble));
  Matrix matrix{bank.detach()[0].clone()};
  for (int step = 0; step < 3; ++step) {
    const auto gradient = test::normal({1, 20, 6}, 30 + static_cast<std::uint64_t>(step));
    muon.step(test::scalars(0.5, 0.75), {gradient});
    matrix.b = 0.75 * matrix.b + gradient[0];
    const auto update = orthogonalize(gradient[0] + 0.75 * matrix.b, {.steps = polar_express(5)});
    matrix.step(update, kRate * 0.5, 1.5, /*cautious=*/true);
    // The rate is an fp32 number, 2^-24 relative.
    EXPECT_TRUE(test::is_close(bank[0], matrix.p, 0, 1e-8)) << step;
  }
}

// Three kinds of two matrices each, beside a bank of each kind.
TEST(NorMuon, PartsOfABankHaveTheirOwnMultipliers) {
  auto update = Update::muon;
  update.lr_multiplier = 1.5;
  update.wd_multiplier = 0.5;
  update.parts = {{.lr = 2}, {}, {.lr = 4, .wd = 3}};
  const auto gradient = [](std::uint64_t step) {
    return test::normal({6, 5, 9}, 40 + step, at::kFloat);
  };
  for (const bool cautious : {false, true}) {
    for (const int world : {1, 4}) {
      test::as_ranks(world, [&](Communicator& communicator) {
        const auto whole = test::leaf({6, 5, 9}, 8);
        const auto table = test::table_of({{"bank", whole}}, update);
        ParameterTable banks;
        for (std::int64_t part = 0; part < 3; ++part) {
          auto of_part = update;
          of_part.parts = {};
          of_part.lr_multiplier *= update.parts[static_cast<std::size_t>(part)].lr;
          of_part.wd_multiplier *= update.parts[static_cast<std::size_t>(part)].wd;
          banks.add({.name = std::to_string(part),
                     .value = whole.detach().narrow(0, 2 * part, 2).clone(),
                     .update = of_part});
        }
        NorMuon rule(test::rows_of(table), options_of(cautious), kBeta2, communicator);
        NorMuon apart(test::rows_of(banks), options_of(cautious), kBeta2, communicator);
        for (std::uint64_t step = 0; step < 2; ++step) {
          const auto mine = [&](std::int64_t first, std::int64_t n) {
            const auto range = chunks_of_rank(n, communicator);
            return gradient(step).narrow(0, first + range.first, range.count);
          };
          const auto clip = at::ones({}, at::kFloat);
          rule.step(test::scalars(1, 0.9), {mine(0, 6)}, clip);
          apart.step(test::scalars(1, 0.9), {mine(0, 2), mine(2, 2), mine(4, 2)}, clip);
        }
        for (std::int64_t part = 0; part < 3; ++part) {
          // The batched GEMMs may add in another order.
          EXPECT_TRUE(test::is_close(whole.detach().narrow(0, 2 * part, 2),
                                     banks[std::to_string(part)], 0, 1e-6))
              << "part " << part << " of a bank on " << world << " ranks";
        }
      });
    }
  }
}

TEST(Muon, BanksOfOneOptimizerMayHaveDifferentMultipliers) {
  const auto gradient = test::normal({1, 6, 6}, 7, at::kFloat);
  auto twice = Update::muon;
  twice.lr_multiplier = 2;
  ParameterTable table;
  const auto a = at::zeros({1, 6, 6}), b = at::zeros({1, 6, 6});
  table.add({.name = "a", .value = a, .update = Update::muon});
  table.add({.name = "b", .value = b, .update = twice});
  Alone<Muon> muon(table, options_of(false));
  muon.step(test::scalars(1, 0.9), {gradient, gradient});
  EXPECT_TRUE(a.any().item<bool>());
  EXPECT_TRUE(test::is_same(b.detach(), a.detach() * 2));
}

// Single matrices of one shape share a batch; each row gets the update and state that it gets
// alone.
TEST(NorMuon, UpdatesSingleMatricesOfOneShapeTogetherAsEachAlone) {
  const NamedTensors values{{"a", test::leaf({6, 4}, 1)},
                            {"bank", test::leaf({2, 6, 4}, 2)},
                            {"wide", test::leaf({4, 6}, 3)},
                            {"b", test::leaf({6, 4}, 4)}};
  const auto gradients_of_step = [&](std::uint64_t step) {
    std::vector<at::Tensor> all;
    for (const auto& [name, value] : values)
      all.push_back(test::normal(value.sizes(), 10 * step + all.size(), at::kFloat));
    return all;
  };
  ParameterTable table;
  std::vector<at::Tensor> stepped;
  for (const auto& [name, value] : values) {
    auto update = Update::muon;
    update.lr_multiplier = static_cast<double>(stepped.size() + 1);
    table.add(
        {.name = name, .value = stepped.emplace_back(value.detach().clone()), .update = update});
  }
  Alone<NorMuon> together(std::move(table), options_of(true), kBeta2);
  for (std::uint64_t step = 0; step < 2; ++step)
    together.step(test::scalars(1, 0.9), gradients_of_step(step));

  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& [name, value] = values[i];
    const auto own = value.detach().clone();
    Alone<NorMuon> alone(table_of({{name, own}}, static_cast<double>(i + 1)), options_of(true),
                         kBeta2);
    for (std::uint64_t step = 0; step < 2; ++step)
      alone.step(test::scalars(1, 0.9), {gradients_of_step(step)[i]});
    // The batched GEMMs may add in another order.
    EXPECT_TRUE(test::is_close(stepped[i].detach(), own, 0, 1e-6)) << name;
    for (const char* kind : {"momentum.", "second_momentum."}) {
      const auto expected = test::chunks_of(alone.state(), kind + name);
      EXPECT_GT(expected.numel(), 0) << kind << name;
      EXPECT_TRUE(test::is_close(test::chunks_of(together.state(), kind + name), expected, 0, 1e-6))
          << kind << name;
    }
  }
}

}  // namespace
}  // namespace tg
