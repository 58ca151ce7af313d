// Tests the kernels of ops/attention/composed_attention.h against the reference in fp64 on the CPU.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "ops/attention/composed_attention.h"
#include "ops/fused.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

struct ComposedCase {
  const char* name;
  std::int64_t rows, tokens, heads, head_dim, window;
  std::vector<int> starts{};  // of documents, among all tokens; empty: each row is one document
};

constexpr const char* kResults[] = {"y", "dq", "dk", "dv", "d_pre", "d_post"};

struct Inputs {
  // Heads of q, k and v in one tensor, and the weights among others, as the model has them.
  at::Tensor qkv, weights, d_y;
  std::int64_t heads, window;
  at::Tensor starts;

  Inputs(const ComposedCase& c, at::ScalarType dtype)
      : qkv(test::normal({c.rows, c.tokens, 3 * c.heads, c.head_dim}, 1, dtype)),
        weights(test::normal({c.rows, c.tokens, 2 * c.heads + 3}, 2, dtype)),
        d_y(test::normal({c.rows, c.tokens, c.heads, c.head_dim}, 3, dtype)),
        heads(c.heads),
        window(c.window) {
    if (c.starts.empty()) return;
    starts = at::zeros({c.rows * c.tokens}, at::kBool);
    for (const auto start : c.starts) starts[start] = true;
    starts = starts.view({c.rows, c.tokens});
  }

  // In the order of kResults.
  std::vector<at::Tensor> run(at::Device device, at::ScalarType dtype) const {
    const auto leaf = [&](const at::Tensor& x, std::int64_t first) {
      return x.to(device, dtype).narrow(2, first, heads).detach().set_requires_grad(true);
    };
    const auto q = leaf(qkv, 0), k = leaf(qkv, heads), v = leaf(qkv, 2 * heads),
               pre = leaf(weights, 1), post = leaf(weights, heads + 2);
    const auto y = composed_attention(
        q, k, v,
        {.pre = pre,
         .post = post,
         .scale = 1 / std::sqrt(static_cast<double>(qkv.size(3))),
         .window = window,
         .documents =
             starts.defined() ? std::optional(documents_in(starts, device)) : std::nullopt});
    auto results = torch::autograd::grad({y}, {q, k, v, pre, post}, {d_y.to(device, dtype)});
    results.insert(results.begin(), y.detach());
    return results;
  }
};

// The largest error of a row, relative to its norm or, if that is larger, to the root mean square
// of all rows' norms: gradients of a query that sees one key are 0.
double worst_row(const at::Tensor& found, const at::Tensor& exact) {
  const auto norms = exact.norm(2, -1);
  const auto errors = (found.to(at::kCPU, at::kDouble) - exact).norm(2, -1);
  return (errors / at::maximum(norms, norms.square().mean().sqrt())).max().item<double>();
}

// gtest prints the bytes of a value that it cannot print otherwise.
void PrintTo(const ComposedCase& c, std::ostream* out) {
  *out << c.name;
}

using Parameters = std::tuple<ComposedCase, at::ScalarType>;
class ComposedAttentionGpu : public test::OnGpu<::testing::TestWithParam<Parameters>> {};

TEST_P(ComposedAttentionGpu, OutputAndGradientsMatchTheReference) {
  const auto& [c, dtype] = GetParam();
  const Inputs inputs(c, dtype);
  const auto found = inputs.run(test::kGpu, dtype), exact = inputs.run(at::kCPU, at::kDouble);
  for (std::size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE(kResults[i]);
    EXPECT_EQ(found[i].scalar_type(), dtype);
    ASSERT_EQ(found[i].sizes(), exact[i].sizes());
    EXPECT_LT(worst_row(found[i], exact[i]), dtype == at::kHalf ? 4e-3 : 3e-2);
  }
}

TEST_P(ComposedAttentionGpu, GivesTheSameBitsAgain) {
  const auto& [c, dtype] = GetParam();
  const Inputs inputs(c, dtype);
  const auto once = inputs.run(test::kGpu, dtype), again = inputs.run(test::kGpu, dtype);
  for (std::size_t i = 0; i < once.size(); ++i) {
    SCOPED_TRACE(kResults[i]);
    EXPECT_TRUE(test::is_same(again[i], once[i]));
  }
}

TEST_P(ComposedAttentionGpu, OnlyTheLastQueriesRunAsTheReference) {
  const auto& [c, dtype] = GetParam();
  const Inputs inputs(c, dtype);
  const auto qkv = inputs.qkv.to(test::kGpu), weights = inputs.weights.to(test::kGpu);
  const auto part = [&](const at::Tensor& x, std::int64_t first) {
    return x.narrow(2, first, c.heads);
  };
  const auto run = [&] {
    return composed_attention(part(qkv, 0).slice(1, -1), part(qkv, c.heads), part(qkv, 2 * c.heads),
                              {.pre = part(weights, 0).slice(1, -1),
                               .post = part(weights, c.heads).slice(1, -1),
                               .scale = 0.1,
                               .window = c.window});
  };
  const auto found = run();
  set_fused(false);
  const auto reference = run();
  set_fused(true);
  EXPECT_TRUE(test::is_same(found, reference));
}

// Blocks of 64 tokens, in the kernels: partial, and several.
const ComposedCase kCases[] = {
    {.name = "heads_of_128",
     .rows = 1,
     .tokens = 150,
     .heads = 6,
     .head_dim = 128,
     .window = 112,
     .starts = {0, 1, 2, 9}},
    {.name = "heads_of_64",
     .rows = 2,
     .tokens = 77,
     .heads = 3,
     .head_dim = 64,
     .window = 10,
     .starts = {0, 5, 38, 76, 77, 90, 150}},
    {.name = "longest_window", .rows = 1, .tokens = 209, .heads = 2, .head_dim = 64, .window = 128},
    {.name = "several_rows", .rows = 3, .tokens = 65, .heads = 1, .head_dim = 128, .window = 112},
    {.name = "two_keys", .rows = 2, .tokens = 3, .heads = 3, .head_dim = 64, .window = 2},
};

std::string name_of(const testing::TestParamInfo<Parameters>& tested) {
  return std::string(std::get<0>(tested.param).name) + "_" +
         c10::toString(std::get<1>(tested.param));
}

INSTANTIATE_TEST_SUITE_P(Shapes, ComposedAttentionGpu,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Values(at::kBFloat16, at::kHalf)),
                         name_of);

}  // namespace
}  // namespace tg
