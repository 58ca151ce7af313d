#include "optim/muon.h"

#include "tests/optim/helpers.h"

namespace tg {
namespace {

const MuonOptions kOptions{
    .lr = 0.05, .weight_decay = 0.2, .steps = muon_quintic(5), .dtype = at::kFloat};

at::Tensor orthogonalized(const at::Tensor& x) {
  return orthogonalize(x, {.steps = muon_quintic(5)});
}

// Muon on one rank, fed with the gradients that its banks hold.
class MuonAlone {
 public:
  MuonAlone(const NamedTensors& banks, const MuonOptions& options)
      : table_(test::table_of_banks(banks)),
        dtype_(options.dtype),
        muon_(test::rows_of(table_), options, alone_) {}
  void step(const StepScalars& scalars) {
    std::vector<at::Tensor> gradients;
    for (const auto& row : table_.rows()) gradients.push_back(row.value.grad().to(dtype_));
    muon_.step(scalars, gradients, at::ones({}, at::kFloat));
  }
  NamedTensors state() const { return muon_.sharded_state(); }

 private:
  Communicator alone_;
  ParameterTable table_;
  at::ScalarType dtype_;
  Muon muon_;
};

// u = NS5(g + μb) after b ← μb + g, in `dtype` as a Python script writes it: μ is a plain number.
void step_by_hand(at::Tensor& weight, at::Tensor& momentum, const at::Tensor& gradient, double mu,
                  double lr, double weight_decay) {
  const auto g = gradient.to(momentum.scalar_type());
  momentum = momentum * mu + g;
  const auto update = orthogonalized(g + momentum * mu);
  const double rows = static_cast<double>(weight.size(-2));
  const double columns = static_cast<double>(weight.size(-1));
  const double shape = std::sqrt(std::max(1.0, rows / columns));
  weight = weight * (1 - lr * weight_decay) - lr * shape * update.to(weight.scalar_type());
}

struct Run {
  at::Tensor actual, expected, momentum, expected_momentum;
};

Run run(at::IntArrayRef shape, at::ScalarType weights, at::ScalarType buffers, int steps,
        double mu) {
  const auto parameter = test::leaf(shape, 1, weights);
  auto options = kOptions;
  options.dtype = buffers;
  MuonAlone muon({{"bank", parameter}}, options);
  auto weight = parameter.detach().clone(), momentum = at::zeros(shape, buffers);
  for (int step = 0; step < steps; ++step) {
    const double scale = 1 - 0.2 * step;
    const auto gradient = test::normal(shape, 10 + static_cast<std::uint64_t>(step));
    test::set_gradient(parameter, gradient);
    muon.step(test::scalars(scale, mu));
    step_by_hand(weight, momentum, parameter.grad(), mu, kOptions.lr * scale,
                 kOptions.weight_decay);
  }
  return {parameter.detach(), weight, test::momentum_of(muon.state(), "bank"), momentum};
}

TEST(Muon, FollowsItsFormulaStepByStep) {
  for (const auto& shape : {std::vector<std::int64_t>{3, 8, 8}, {2, 20, 6}, {2, 6, 20}}) {
    const auto fine = run(shape, at::kDouble, at::kDouble, 4, 0.9);
    // The rate and μ are fp32 scalars, 2^-24 relative, amplified by up to 3.4445^5 in the
    // iteration.
    EXPECT_TRUE(test::is_close(fine.actual, fine.expected, 0, 2e-6));
    EXPECT_TRUE(test::is_close(fine.momentum, fine.expected_momentum, 0, 1e-6));
    const auto single = run(shape, at::kFloat, at::kFloat, 4, 0.9);
    EXPECT_TRUE(test::is_close(single.actual, single.expected, 0, 2e-4));
  }
}

TEST(Muon, HalfPrecisionBuffersStepFullWeights) {
  const auto half = run({2, 12, 8}, at::kFloat, at::kBFloat16, 4, 0.99);
  EXPECT_EQ(half.actual.scalar_type(), at::kFloat);
  EXPECT_EQ(half.momentum.scalar_type(), at::kBFloat16);
  // Two bf16 iterations that round in other places: 2^-8 of values up to 1, amplified; the rate
  // makes it a twentieth.
  EXPECT_TRUE(test::is_close(half.actual, half.expected, 0, 0.02));
}

TEST(Muon, HalfPrecisionBuffersDecayByTheMomentumItself) {
  // 0.99 is not a bf16 number: rounded to one it would be 0.98828, a memory of 85 steps, not 100.
  const auto parameter = test::leaf({1, 4, 4}, 2);
  auto options = kOptions;
  options.dtype = at::kBFloat16;
  MuonAlone muon({{"bank", parameter}}, options);
  test::set_gradient(parameter, at::full({1, 4, 4}, 130.0));
  muon.step(test::scalars(1, 0.99));
  test::set_gradient(parameter, at::zeros({1, 4, 4}));
  muon.step(test::scalars(1, 0.99));
  // 130 · 0.99 = 128.7, next to 129 among the whole numbers that bf16 has there; 0.98828 gives 128.
  EXPECT_EQ(test::momentum_of(muon.state(), "bank")[0][0][0].item<double>(), 129);
}

TEST(Muon, HalfPrecisionUpdatesLookAheadByTheMomentumItself) {
  // Without iterations the update is (g + μb)/‖g + μb‖, here of two elements whose bf16 roundings
  // all fall alike but for μ's own: b = (130, 2064), so g + μb is (0 + 128.7, 2064 + 2043.4),
  // in bf16 (129, 4096), of norm 4096. With μ rounded to 0.98828 the first would be 128.
  const auto parameter = at::zeros({1, 1, 2}).set_requires_grad(true);
  MuonAlone muon({{"bank", parameter}},
                 {.lr = 1, .weight_decay = 0, .steps = {}, .dtype = at::kBFloat16});
  test::set_gradient(parameter, test::tensor_of({131, 0}, {1, 1, 2}));
  muon.step(test::scalars(0, 0.99));
  test::set_gradient(parameter, test::tensor_of({0, 2064}, {1, 1, 2}));
  muon.step(test::scalars(1, 0.99));
  EXPECT_EQ(parameter[0][0][1].item<double>(), -1);
  EXPECT_EQ(parameter[0][0][0].item<double>(), -129.0 / 4096);
}

TEST(Muon, TallMatricesStepFurther) {
  for (const auto& [shape, factor] :
       {std::pair{std::vector<std::int64_t>{1, 16, 4}, 2.0}, {{1, 4, 16}, 1.0}, {{1, 8, 8}, 1.0}}) {
    const auto parameter = test::leaf(shape, 3);
    auto options = kOptions;
    options.weight_decay = 0;
    MuonAlone muon({{"bank", parameter}}, options);
    const auto before = parameter.detach().clone(), gradient = test::normal(shape, 4, at::kFloat);
    test::set_gradient(parameter, gradient);
    muon.step(test::scalars(1, 0));
    const auto step = (before - parameter.detach()) / 0.05;
    // Weights of about 1 round by 1e-7, twenty times that after the division; a change in the last
    // bits of the iteration's input grows to 1e-5.
    EXPECT_TRUE(test::is_close(step, orthogonalized(gradient) * factor, 0, 5e-5));
  }
}

TEST(Muon, EveryMatrixOfABankStandsAlone) {
  const auto bank = test::leaf({3, 6, 10}, 5);
  const auto gradient = test::normal({3, 6, 10}, 6, at::kFloat);
  gradient[1] *= 1e4;
  MuonAlone together({{"bank", bank}}, kOptions);
  std::vector<at::Tensor> alone;
  for (int i = 0; i < 3; ++i) {
    const auto single = bank.detach().narrow(0, i, 1).clone().set_requires_grad(true);
    MuonAlone muon({{"bank", single}}, kOptions);
    test::set_gradient(single, gradient.narrow(0, i, 1));
    muon.step(test::scalars(1, 0.9));
    alone.push_back(single.detach());
  }
  test::set_gradient(bank, gradient);
  together.step(test::scalars(1, 0.9));
  // The batched GEMM may add in another order: 1e-7, amplified by the iteration.
  EXPECT_TRUE(test::is_close(bank, at::cat(alone), 0, 1e-5));
}

TEST(Muon, ASkippedStepLeavesEveryBit) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    auto options = kOptions;
    options.dtype = dtype;
    const auto bank = test::leaf({2, 8, 5}, 7);
    MuonAlone muon({{"bank", bank}}, options);
    test::set_gradient(bank, test::normal({2, 8, 5}, 8));
    muon.step(test::scalars(1, 0.9));
    const auto value = bank.detach().clone();
    const auto state = test::clones(muon.state());
    for (const double bad : {std::nan(""), HUGE_VAL, 1.0}) {
      test::set_gradient(bank, at::full({2, 8, 5}, bad));
      muon.step(test::scalars(1, 0.9, 1));
      EXPECT_TRUE(test::is_same(bank.detach(), value)) << bad;
      test::expect_same(muon.state(), state);
    }
  }
}

TEST(Muon, ASkippedFirstStepLeavesZeroMomentum) {
  const auto bank = test::leaf({1, 4, 4}, 9);
  MuonAlone muon({{"bank", bank}}, kOptions);
  const auto value = bank.detach().clone();
  test::set_gradient(bank, at::full({1, 4, 4}, std::nan("")));
  muon.step(test::scalars(1, 0.9, 1));
  EXPECT_TRUE(test::is_same(bank.detach(), value));
  EXPECT_EQ(test::momentum_of(muon.state(), "bank").count_nonzero().item<std::int64_t>(), 0);
}

}  // namespace
}  // namespace tg
