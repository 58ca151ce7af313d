#include "ops/shared_gradient.h"

#include <gtest/gtest.h>

#include "tests/ops/tensors.h"

namespace tg {
namespace {

at::Tensor leaf() {
  return test::normal({3, 4}, 1).set_requires_grad(true);
}

TEST(SharedGradient, IsThatOfAutogradAndOfTheSum) {
  const auto x = leaf();
  const auto [alias, gradient] = shared(x);
  EXPECT_FALSE(gradient->begun());
  const auto loss = (alias * alias).sum() + alias.sum();
  gradient->zeroed().narrow(1, 2, 1).fill_(10);
  loss.backward();
  auto expected = 2 * x.detach() + 1;
  expected.narrow(1, 2, 1) += 10;
  EXPECT_TRUE(at::equal(x.grad(), expected));
  EXPECT_FALSE(gradient->begun()) << "the sum was not ended";
}

TEST(SharedGradient, IsAutogradsWithoutASum) {
  const auto x = leaf();
  (3 * shared(x).tensor).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::full_like(x, 3)));
}

TEST(SharedGradient, IsNotSummedWithoutGradients) {
  const auto x = leaf();
  EXPECT_EQ(shared(x.detach()).gradient, nullptr);
  const at::NoGradGuard no_grad;
  EXPECT_EQ(shared(x).gradient, nullptr);
}

}  // namespace
}  // namespace tg
