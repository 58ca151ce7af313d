#include "ops/loss/loss_targets.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ops/loss/linear_cross_entropy.h"
#include "tests/ops/tensors.h"
#include "weights/safetensors/safetensors.h"

namespace tg {
namespace {

using Ids = std::vector<std::int64_t>;

at::Tensor ids(const Ids& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kLong).view(shape);
}

TEST(FurtherTargets, AreTheNextTokensOfTheRowAndThePrefix) {
  const auto weights = test::tensor_of({1, 0.5, 0.25, 0.125}, {4}, at::kFloat);
  const auto found =
      with_further_targets(ids({3, 1, 2, 0, 3, 1}, {2, 3}), {weights, ids({-1, 0, -1, 2}, {4})});
  EXPECT_EQ(found.count(), 4);
  EXPECT_TRUE(at::equal(found.first(), ids({3, 1, 2, 0, 3, 1}, {6})));
  const auto expected = test::tensor_of({1, 0.5, 0.25, 0.125,  //
                                         1, 0.5, 0,    0.125,  //
                                         1, 0,   0,    0,      //
                                         1, 0.5, 0.25, 0,      //
                                         1, 0.5, 0,    0.125,  //
                                         1, 0,   0,    0.125},
                                        {6, 4}, at::kFloat);
  EXPECT_TRUE(at::equal(found.weights, expected));
  // The second token of the first row: the two after it, of which the second is in the next row.
  EXPECT_EQ(found.ids[1][1].item<std::int64_t>(), 2);
  EXPECT_EQ(found.ids[0][3].item<std::int64_t>(), 2);
  // All weights of next tokens count in the mass, also at a row's end.
  const auto mass = test::tensor_of({1.875, 1.875, 1.75, 1.75, 1.875, 1.875}, {6}, at::kFloat);
  EXPECT_TRUE(at::equal(found.mass, mass));
}

// The loss of the script of 2026-08-01 with its gradients; a micro-batch of eight, a sum over
// tokens.
TEST(FurtherTargets, GiveTheLossAndGradientsOfRecord89) {
  const auto loaded = load_safetensors(TEST_DATA_DIR "/record_89_loss.safetensors");
  const std::map<std::string, at::Tensor> reference(loaded.begin(), loaded.end());
  const auto of = [&](const char* name) {
    return reference.at(std::string("loss.") + name).to(at::kDouble);
  };
  const auto x = of("x").set_requires_grad(true);
  const auto w = of("W").t().contiguous().set_requires_grad(true);
  const auto y = of("y").to(at::kLong);
  const auto prefixes = at::full({w.size(0)}, -1, at::kLong);
  prefixes.index_put_({y}, of("prefix").to(at::kLong));
  const auto weights = test::tensor_of({1, 0.5, 0.125, 0.25}, {4});
  const auto loss =
      linear_cross_entropy(x, {w, {}}, with_further_targets(y.unsqueeze(0), {weights, prefixes}),
                           {.softcap = {11.5, 5, 15}, .scale = static_cast<double>(y.numel()) / 8});
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), of("per_token").sum().item<double>() / 8, 1e-5);
  EXPECT_TRUE(test::is_close(x.grad(), of("dx"), 1e-4, 1e-6));
  EXPECT_TRUE(test::is_close(w.grad().t(), of("dW"), 1e-4, 1e-6));
}

}  // namespace
}  // namespace tg
