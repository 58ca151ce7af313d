// Tests Adam's kernel against its reference in fp64. Skipped without a GPU.
#include <gtest/gtest.h>

#include <string>

#include "ops/optim/adam_update.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

class AdamUpdateGpu : public test::OnGpu<> {};

at::Tensor fp32(double value) {
  return at::full({}, value, at::TensorOptions(test::kGpu).dtype(at::kFloat));
}

AdamOptions options_of(double weight_decay = 0, bool cautious = false) {
  return {.lr = 0.6,
          .weight_decay = weight_decay,
          .beta1 = 0.65,
          .beta2 = 0.95,
          .epsilon = 1e-8,
          .cautious = cautious};
}

struct Case {
  at::Tensor p, g, m, v;

  Case(std::int64_t count, at::ScalarType p_dtype, at::ScalarType g_dtype) {
    at::manual_seed(count);
    const auto drawn = [&](at::ScalarType dtype) {
      return at::randn({count}, at::kFloat).to(test::kGpu, dtype);
    };
    p = drawn(p_dtype);
    g = drawn(g_dtype);
    m = drawn(at::kFloat);
    v = drawn(at::kFloat).square();
  }
  Case exact() const {
    Case all = *this;
    for (auto* x : {&all.p, &all.g, &all.m, &all.v}) *x = x->to(at::kDouble);
    return all;
  }
  void update(const AdamOptions& options, bool skip = false) const {
    adam_update(p, g, m, v, fp32(3), options, /*lr_scale=*/fp32(0.25), fp32(skip ? 1 : 0));
  }
};

void expect_reference(const Case& own, const AdamOptions& options, const std::string& what) {
  const auto exact = own.exact();
  exact.update(options);
  own.update(options);
  EXPECT_TRUE(test::is_close(own.m.cpu(), exact.m.cpu(), 3e-7, 3e-7)) << what;
  EXPECT_TRUE(test::is_close(own.v.cpu(), exact.v.cpu(), 3e-7, 3e-7)) << what;
  const double rounding = own.p.scalar_type() == at::kFloat ? 1e-6 : 1.0 / 256;
  EXPECT_TRUE(test::is_close(own.p.cpu(), exact.p.cpu(), rounding, 1e-6)) << what;
}

TEST_F(AdamUpdateGpu, MatchesTheReferenceInEveryDtypeAndDecay) {
  for (const auto p_dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto g_dtype : {at::kFloat, at::kBFloat16}) {
      for (const std::int64_t count : {1, 7, 4099}) {
        for (const auto& [decay, cautious] : {std::pair{0.0, false}, {0.1, false}, {0.7, true}}) {
          expect_reference(Case(count, p_dtype, g_dtype), options_of(decay, cautious),
                           std::to_string(count) + " decay " + std::to_string(decay));
        }
      }
    }
  }
}

TEST_F(AdamUpdateGpu, MatchesTheReferenceOfManyElements) {
  expect_reference(Case(20000003, at::kBFloat16, at::kBFloat16), options_of(), "");
}

TEST_F(AdamUpdateGpu, ASkippedStepChangesNothingWhateverTheGradient) {
  Case own(4099, at::kBFloat16, at::kBFloat16);
  own.g.fill_(std::nan(""));
  const auto p = own.p.clone(), m = own.m.clone(), v = own.v.clone();
  own.update(options_of(0.1), /*skip=*/true);
  EXPECT_TRUE(at::equal(own.p, p) && at::equal(own.m, m) && at::equal(own.v, v));
}

}  // namespace
}  // namespace tg
