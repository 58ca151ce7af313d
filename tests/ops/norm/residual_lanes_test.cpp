#include "ops/norm/residual_norm.h"
#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

at::Tensor rms(const at::Tensor& x) {
  return x / (x.square().mean(-1, true) + 1.1920929e-07).sqrt();
}

struct Drawn {
  at::Tensor lane0 = test::normal({3, 8}, 1), lane1 = test::normal({3, 8}, 2),
             attention = test::normal({3, 8}, 3), mlp = test::normal({3, 8}, 4),
             skip = test::normal({3, 8}, 5), x0 = test::normal({3, 8}, 6),
             weights = test::normal({2, 4}, 7), blend = test::normal({2, 8}, 8),
             mix = test::normal({2, 8}, 9);

  std::vector<at::Tensor> all() const {
    return {lane0, lane1, attention, mlp, skip, x0, weights, blend, mix};
  }
  MixTerms terms() const { return {{lane0}, {lane1}, {attention}, {mlp}}; }
};

at::Tensor all(const NormedLanes& out) {
  return at::cat({out.lanes[0], out.lanes[1], out.y[0].rows(), out.y[1].rows(), out.x0});
}

TEST(ResidualLanes, AddsSkipsMixesAndNorms) {
  const Drawn d;
  const auto lane = [&](std::int64_t k) {
    const auto w = d.weights[k];
    return w[0] * d.lane0 + w[1] * d.lane1 + w[2] * d.attention + w[3] * d.mlp;
  };
  const auto expect = [&](const at::Tensor& skip, const at::Tensor& skipped) {
    const auto out = residual_norm({.terms = d.terms(),
                                    .weights = d.weights,
                                    .skip = skip,
                                    .blend = d.blend,
                                    .x0 = d.x0,
                                    .mix = d.mix},
                                   {NormOptions{.scale = 0.5}, {.scale = 0.7}});
    const auto mixed = d.mix[0] * skipped + d.mix[1] * d.x0;
    const auto expected = at::cat({skipped, lane(1), 0.5 * rms(mixed), 0.7 * rms(lane(1)), d.x0});
    EXPECT_TRUE(test::is_close(all(out), expected, 1e-12, 1e-14));
  };
  expect(d.skip, d.blend[0] * lane(0) + d.blend[1] * d.skip);
  expect({}, d.blend[0] * lane(0));
}

TEST(ResidualLanes, WithoutWeightsBothLanesAreTheSum) {
  const Drawn d;
  const auto sum = d.lane0 + d.mlp;
  const auto out = residual_norm(LaneTerms{.terms = {{d.lane0}, {d.mlp}}}, {});
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_TRUE(test::is_same(out.lanes[k], sum));
    EXPECT_TRUE(test::is_close(out.y[k].rows(), rms(sum), 1e-12, 1e-14));
  }
}

TEST(ResidualLanes, OneLaneIsNormedAloneAndATermMayBeLeftOut) {
  const Drawn d;
  auto terms = d.terms();
  terms[1].tensor.reset();
  const auto weights = d.weights.narrow(0, 0, 1), w = weights[0];
  const auto out =
      residual_norm({.lanes = 1, .terms = terms, .weights = weights}, {NormOptions{.scale = 0.5}});
  const auto sum = w[0] * d.lane0 + w[2] * d.attention + w[3] * d.mlp;
  EXPECT_TRUE(test::is_close(out.y[0].rows(), 0.5 * rms(sum), 1e-12, 1e-14));
  EXPECT_FALSE(out.lanes[0].defined());
}

TEST(ResidualLanes, GradientsAreRight) {
  const Drawn d;
  for (const auto& leaf : d.all()) leaf.set_requires_grad(true);
  const auto call = [&] {
    return all(residual_norm({.terms = d.terms(),
                              .weights = d.weights,
                              .skip = d.skip,
                              .blend = d.blend,
                              .x0 = d.x0,
                              .mix = d.mix},
                             {NormOptions{.scale = 0.5}, {.scale = 0.7}}));
  };
  EXPECT_TRUE(test::gradients_are_right(call, d.all()));
}

TEST(ResidualLanes, GradientsOfConstantsAreAddedToTheirBuffers) {
  const Drawn d;
  d.lane0.set_requires_grad(true);
  const auto gradients = [&](bool accumulates) {
    const auto weight = [&](const at::Tensor& value) {
      const auto leaf = value.detach().clone();
      leaf.mutable_grad() = at::ones_like(value);
      return accumulates ? MixWeight(leaf, leaf.grad()) : MixWeight(leaf.requires_grad_());
    };
    const auto weights = weight(d.weights), blend = weight(d.blend), mix = weight(d.mix);
    const auto out = residual_norm({.terms = d.terms(),
                                    .weights = weights,
                                    .skip = d.skip,
                                    .blend = blend,
                                    .x0 = d.x0,
                                    .mix = mix},
                                   {});
    all(out).square().sum().backward();
    std::vector<at::Tensor> found;
    for (const auto& parameter : {weights, blend, mix}) found.push_back(parameter.value.grad());
    return found;
  };
  const auto added = gradients(true), followed = gradients(false);
  for (std::size_t i = 0; i < added.size(); ++i) {
    EXPECT_TRUE(test::is_same(added[i], followed[i])) << i;
    EXPECT_GT((added[i] - 1).abs().min().item<double>(), 0) << i;
  }
}

}  // namespace
}  // namespace tg
