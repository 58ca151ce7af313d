// Tests operations with FP8 GEMMs on a GPU: against the unfused ones and bf16. Skipped without FP8
// tensor cores.
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <utility>
#include <vector>

#include "ops/attention/projection/qkv_proj_norm_rope.h"
#include "ops/mlp/mlp.h"
#include "tests/ops/gemm/fp8.h"
#include "tests/ops/on_fp8_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

using test::bf16_matrix;
using test::OnFp8Gpu;

double relative(const at::Tensor& found, const at::Tensor& right) {
  const auto exact = right.to(at::kDouble);
  return ((found.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}
// The largest relative error of any row: detects a wrong tile, row or column.
double worst_row(const at::Tensor& found, const at::Tensor& right) {
  const auto rows = [](const at::Tensor& x) { return x.to(at::kDouble).reshape({-1, x.size(-1)}); };
  const auto exact = rows(right);
  const auto off = (rows(found) - exact).norm(2, 1);
  return (off / (exact.norm(2, 1) + exact.norm() * 1e-6)).max().item<double>();
}

struct Shape {
  std::int64_t rows, dim, hidden;
  double slope;
  bool scaled = false;  // has a row_scale
};

at::Tensor row_scale_of(std::int64_t rows) {
  return at::rand({rows}, at::device(test::kGpu).dtype(at::kFloat)) + 0.5;
}

class Fp8MlpGpu : public OnFp8Gpu<::testing::TestWithParam<Shape>> {
 protected:
  struct Results {
    at::Tensor y, dx, d_up, d_down;
    std::vector<float> amax;
  };
  static Results run(const Shape& s, bool fp8, bool recompute = false) {
    const auto unit = [](std::int64_t n) { return 1 / std::sqrt(static_cast<double>(n)); };
    auto up = test::fp8_weight(bf16_matrix(s.hidden, s.dim, 1, unit(s.dim)));
    auto down = test::fp8_weight(bf16_matrix(s.dim, s.hidden, 2, unit(s.hidden)));
    const auto magnitudes = {up.fp8.input.amax, down.fp8.input.amax, up.fp8.output_gradient.amax,
                             down.fp8.output_gradient.amax};
    if (!fp8) up.fp8 = down.fp8 = {};
    const auto x = bf16_matrix(s.rows, s.dim, 3).set_requires_grad(true);
    at::manual_seed(5);
    const auto in = s.scaled ? NormedInput::deferred_scale(x, row_scale_of(s.rows)) : x;
    const auto y = mlp(in, up, down, s.slope, recompute);
    y.backward(bf16_matrix(s.rows, s.dim, 4));
    Results found{y.detach(), x.grad(), up.gradient, down.gradient, {}};
    for (const auto& amax : magnitudes) found.amax.push_back(amax.item<float>());
    return found;
  }
};

TEST_P(Fp8MlpGpu, IsTheSeparateOperationsAndNearBf16) {
  const auto found = run(GetParam(), true), bf16 = run(GetParam(), false);
  set_fused(false);
  const auto separate = run(GetParam(), true);
  set_fused(true);
  // The unfused path also rounds x·upᵀ, the activation and its gradient to bf16, which moves a
  // tenth of the elements to the next FP8 value. Its weight gradients are bf16 GEMMs.
  EXPECT_LE(relative(found.y, separate.y), 0.04);
  EXPECT_LE(relative(found.dx, separate.dx), 0.05);
  EXPECT_LE(worst_row(found.y, separate.y), 0.15);
  EXPECT_LE(worst_row(found.dx, separate.dx), 0.15);
  for (const auto& [own, other] :
       {std::pair{found.d_up, separate.d_up}, {found.d_down, separate.d_down}}) {
    EXPECT_LE(relative(own, other), 0.07);
    if (GetParam().rows == 1) continue;  // one row: the error of a hidden unit does not average out
    EXPECT_LE(worst_row(own, other), 0.2);
    EXPECT_LE(worst_row(own.t(), other.t()), 0.2);
  }
  for (std::size_t i = 0; i < found.amax.size(); ++i)
    EXPECT_NEAR(found.amax[i], separate.amax[i], 0.02F * separate.amax[i]) << i;
  // Each operand has two roundings of at most 1/16, on average a third of that.
  EXPECT_LE(relative(found.y, bf16.y), 0.08);
  EXPECT_LE(relative(found.dx, bf16.dx), 0.08);
  EXPECT_GT(relative(found.y, bf16.y), 0.005) << "not the path that was meant";
}

TEST_P(Fp8MlpGpu, GivesTheSameBitsAgainAndWithRecompute) {
  const auto first = run(GetParam(), true), second = run(GetParam(), true),
             recomputed = run(GetParam(), true, true);
  for (const auto* other : {&second, &recomputed}) {
    EXPECT_TRUE(at::equal(first.y, other->y));
    EXPECT_TRUE(at::equal(first.dx, other->dx));
    EXPECT_TRUE(at::equal(first.d_up, other->d_up));
    EXPECT_TRUE(at::equal(first.d_down, other->d_down));
    EXPECT_EQ(first.amax, other->amax);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Fp8MlpGpu,
                         ::testing::Values(Shape{98304, 512, 1536, 0.5}, Shape{65536, 768, 3072, 0},
                                           Shape{1, 64, 192, 0.5}, Shape{300, 128, 256, 0.5},
                                           Shape{1111, 80, 208, -0.5, true},
                                           Shape{9000, 528, 1008, 0.25}),
                         [](const auto& tested) {
                           const auto& s = tested.param;
                           return fmt::format("{}x{}x{}", s.rows, s.dim, s.hidden);
                         });

class Fp8QkvGpu : public OnFp8Gpu<> {};

TEST_F(Fp8QkvGpu, IsTheSeparateOperationsAndNearBf16) {
  const struct {
    std::int64_t batch, tokens, dim, heads, kv_heads, head_dim, rope_dims;
    bool with_values = false;  // of an embedding and of the first layer, and gains
    bool paired = false;       // with interleaved pairs and key offset
  } cases[] = {{2, 2048, 512, 8, 4, 64, 16},
               {2, 1024, 768, 6, 6, 128, 128},
               {3, 333, 208, 3, 1, 64, 32},
               {3, 333, 208, 3, 1, 64, 32, true},
               {3, 333, 208, 4, 2, 128, 48, false, true}};
  for (const auto& c : cases) {
    const auto width = (c.heads + 2 * c.kv_heads) * c.head_dim;
    const RopeOptions options{.dims = c.rope_dims, .interleaved = c.paired};
    const at::Device device = test::kGpu;
    const auto table = c.paired ? make_paired_rope_table(c.tokens, options, at::kBFloat16, device)
                                : make_rope_table(c.tokens, options, at::kBFloat16, device);
    const auto run = [&](bool fp8) {
      auto weight = test::fp8_weight(bf16_matrix(width, c.dim, 1, 1 / std::sqrt(double(c.dim))));
      if (!fp8) weight.fp8 = {};
      const auto x = bf16_matrix(c.batch * c.tokens, c.dim, 2)
                         .view({c.batch, c.tokens, c.dim})
                         .set_requires_grad(true);
      QkvInputs in{
          .heads = c.heads, .kv_heads = c.kv_heads, .channels = c.head_dim, .key_offset = c.paired};
      const auto values = bf16_matrix(c.batch * c.tokens, c.kv_heads * c.head_dim, 4)
                              .view({c.batch, c.tokens, c.kv_heads * c.head_dim})
                              .set_requires_grad(true);
      if (c.with_values) {
        in.value_embedding = values;
        in.q_gain = at::arange(1, c.heads + 1, weight.gradient.options());
        in.value_residual = true;
        in.first_v = values.detach().view({c.batch, c.tokens, c.kv_heads, c.head_dim}) * 3;
        in.first_weight = at::full({}, 0.5, weight.gradient.options());
      }
      const auto out = qkv_proj_norm_rope(x, weight, in, table);
      std::vector<at::Tensor> upstream;
      for (const auto heads : {c.heads, c.kv_heads, c.kv_heads})
        upstream.push_back(bf16_matrix(c.batch * c.tokens, heads * c.head_dim, 3)
                               .view({c.batch, c.tokens, heads, c.head_dim}));
      torch::autograd::backward({out.q, out.k, out.v}, upstream);
      std::vector<at::Tensor> found{out.q.detach(), out.k.detach(), out.v.detach(), x.grad()};
      if (c.with_values) found.push_back(values.grad());
      found.push_back(weight.gradient);
      return found;
    };
    const auto found = run(true), bf16 = run(false);
    set_fused(false);
    const auto separate = run(true);
    set_fused(true);
    // The unfused path computes the weight gradient as a bf16 GEMM.
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_LE(relative(found[i], separate[i]), i + 1 == found.size() ? 0.06 : 0.012)
          << c.dim << " " << i;
      EXPECT_LE(relative(found[i], bf16[i]), 0.08) << c.dim << " " << i;
    }
    EXPECT_LE(worst_row(found.back(), separate.back()), 0.1);
    EXPECT_LE(worst_row(found.back().t(), separate.back().t()), 0.1);
    EXPECT_GT(relative(found[0], bf16[0]), 0.005) << "not the path that was meant";
  }
}

}  // namespace
}  // namespace tg
