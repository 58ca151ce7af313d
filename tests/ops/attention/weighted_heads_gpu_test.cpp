// Tests the kernels of ops/attention/gates/weighted_heads.h against the reference in fp64 on the
// CPU.
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "ops/attention/gates/weighted_heads.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

// Which weights are given.
struct Parts {
  const char* name;
  bool exclusive, gate;
};
const Parts kParts[] = {{"exclusive", true, false}, {"gate", false, true}, {"both", true, true}};

struct Shape {
  std::int64_t tokens, heads, kv_heads, head_dim;
};

// The output, the gradients of y, v, the exclusive weights and the gates (undefined: not given),
// and attention's delta, which only the kernels compute.
using Results = std::array<at::Tensor, 6>;
constexpr std::size_t kDelta = 5;

struct Inputs {
  // As in the model, v is a view of the projection's heads and the weights are views of a network's
  // outputs.
  at::Tensor y, packed_v, numbers, d_out;
  std::int64_t heads;

  Inputs(const Shape& shape, at::ScalarType dtype)
      : y(test::normal({2, shape.tokens, shape.heads, shape.head_dim}, 1, dtype)),
        packed_v(test::normal({2, shape.tokens, shape.kv_heads + 1, shape.head_dim}, 2, dtype)),
        numbers(test::normal({2, shape.tokens, 2 * shape.heads + 3}, 3, dtype)),
        d_out(test::normal({2, shape.tokens, shape.heads, shape.head_dim}, 4, dtype)),
        heads(shape.heads) {}

  Results run(const Parts& parts, at::Device device, at::ScalarType dtype) const {
    const auto view = [&](const at::Tensor& x, std::int64_t dim, std::int64_t first,
                          std::int64_t count) {
      auto leaf = x.to(device, dtype).detach().narrow(dim, first, count);
      return leaf.set_requires_grad(true);
    };
    const auto given = y.to(device, dtype).detach().set_requires_grad(true);
    const auto v = view(packed_v, 2, 1, packed_v.size(2) - 1);
    TokenHeadWeights weights;
    std::vector<at::Tensor> leaves{given};
    if (parts.exclusive)
      leaves.insert(leaves.end(), {v, weights.exclusive = view(numbers, 2, 1, heads)});
    if (parts.gate) leaves.push_back(weights.gate = view(numbers, 2, heads + 2, heads));
    const auto passed = std::make_shared<PassedGradients>(PassedGradients{.takes_delta = true});
    const auto out = weighted_heads(given, v, weights, passed);
    const auto gradients = torch::autograd::grad({out}, leaves, {d_out.to(device, dtype)});
    Results results{out.detach(), gradients[0]};
    if (parts.exclusive) results[2] = gradients[1], results[3] = gradients[2];
    if (parts.gate) results[4] = gradients.back();
    results[kDelta] = passed->delta;
    return results;
  }
};

class WeightedHeadsGpu
    : public test::OnGpu<testing::TestWithParam<std::tuple<Parts, at::ScalarType>>> {
 protected:
  const Parts parts_ = std::get<0>(GetParam());
  const at::ScalarType dtype_ = std::get<1>(GetParam());
};

TEST_P(WeightedHeadsGpu, OutputAndGradientsMatchTheReference) {
  // One rounding of the output, and a few hundred fp32 roundings of terms of size four.
  const double rounding = dtype_ == at::kFloat ? 0x1p-22 : dtype_ == at::kHalf ? 0x1p-11 : 0x1p-8;
  constexpr double kTermsError = 400 * 4 * 0x1p-24;
  const Shape shapes[] = {
      {.tokens = 77, .heads = 6, .kv_heads = 6, .head_dim = 128},
      {.tokens = 60, .heads = 8, .kv_heads = 4, .head_dim = 64},
      // Idle lanes and heads.
      {.tokens = 1, .heads = 3, .kv_heads = 3, .head_dim = 16},
      {.tokens = 13, .heads = 10, .kv_heads = 5, .head_dim = 48},
      // More heads than the grid's lanes hold.
      {.tokens = 9001, .heads = 3, .kv_heads = 3, .head_dim = 32},
      // The largest head in half precision.
      {.tokens = 9, .heads = 4, .kv_heads = 1, .head_dim = 256},
  };
  for (const auto& shape : shapes) {
    if (dtype_ == at::kFloat && shape.head_dim > 128) continue;
    SCOPED_TRACE(testing::Message() << shape.heads << " heads of " << shape.head_dim);
    Inputs inputs(shape, dtype_);
    inputs.packed_v.select(1, 0).zero_();  // a zero value changes nothing and gets no gradient
    const auto found = inputs.run(parts_, test::kGpu, dtype_),
               exact = inputs.run(parts_, at::kCPU, at::kDouble);
    for (std::size_t i = 0; i < kDelta; ++i) {
      ASSERT_EQ(found[i].defined(), exact[i].defined());
      if (!found[i].defined()) continue;
      SCOPED_TRACE(testing::Message() << "result " << i);
      EXPECT_EQ(found[i].scalar_type(), dtype_);
      EXPECT_TRUE(test::is_close(found[i].cpu(), exact[i], rounding, kTermsError));
    }
    const auto products = inputs.y.to(at::kDouble) * found[1].cpu().to(at::kDouble);
    EXPECT_TRUE(test::is_close(found[kDelta].cpu(), products.sum(-1).flatten(0, 1).t(), 0x1p-22,
                               kTermsError));
  }
}

TEST_P(WeightedHeadsGpu, GivesTheSameBitsAgain) {
  const Inputs inputs({.tokens = 700, .heads = 6, .kv_heads = 6, .head_dim = 128}, dtype_);
  const auto first = inputs.run(parts_, test::kGpu, dtype_),
             again = inputs.run(parts_, test::kGpu, dtype_);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(!first[i].defined() || at::equal(first[i], again[i]));
  }
}

TEST_P(WeightedHeadsGpu, OtherWidthsRunAsTheReference) {
  const Inputs inputs({.tokens = 9, .heads = 4, .kv_heads = 2, .head_dim = 18}, dtype_);
  const auto found = inputs.run(parts_, test::kGpu, dtype_);
  set_fused(false);
  const auto reference = inputs.run(parts_, test::kGpu, dtype_);
  set_fused(true);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(!found[i].defined() || at::equal(found[i], reference[i]));
  }
}

TEST_P(WeightedHeadsGpu, MoreHeadsThanTheGpuHasWarpsForAreRefused) {
  const Inputs inputs({.tokens = 1, .heads = 65536, .kv_heads = 65536, .head_dim = 64}, dtype_);
  EXPECT_THROW(inputs.run(parts_, test::kGpu, dtype_), std::runtime_error);
}

TEST_P(WeightedHeadsGpu, ValuesBelowTheLeastSquareAreScaledByAConstant) {
  Inputs inputs({.tokens = 5, .heads = 4, .kv_heads = 2, .head_dim = 64}, dtype_);
  inputs.packed_v.mul_(3e-6);
  const auto found = inputs.run(parts_, test::kGpu, dtype_),
             exact = inputs.run(parts_, at::kCPU, at::kDouble);
  for (std::size_t i = 0; i < kDelta; ++i) {
    if (!found[i].defined()) continue;
    SCOPED_TRACE(testing::Message() << "result " << i);
    const double largest = exact[i].abs().max().item<double>();
    EXPECT_TRUE(test::is_close(found[i].cpu(), exact[i], 0x1p-8, 1e-5 * largest));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, WeightedHeadsGpu,
                         testing::Combine(testing::ValuesIn(kParts),
                                          testing::Values(at::kFloat, at::kBFloat16, at::kHalf)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param).name) + "_" +
                                  c10::toString(std::get<1>(tested.param));
                         });

}  // namespace
}  // namespace tg
