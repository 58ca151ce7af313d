// The kernels of ops/attention/qk_norm_rope.h against the reference in fp64 on the CPU.
#include <torch/csrc/autograd/autograd.h>

#include "ops/attention/qk_norm_rope.h"
#include "ops/fused.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

struct Shape {
  std::int64_t batch, tokens, heads, kv_heads, head_dim, rope_dims;
};

enum class Values { plain, embedded, blend_first, blend, weigh_first, weigh };
constexpr Values kAllValues[] = {Values::plain, Values::embedded,    Values::blend_first,
                                 Values::blend, Values::weigh_first, Values::weigh};

// One call and its gradients, on inputs rounded to `dtype`, which both the kernels and fp64 take.
struct Call {
  Shape shape;
  Values values;
  std::vector<at::Tensor> inputs;    // qkv, q_gain, embedding, lambda, first_v; some undefined
  std::vector<at::Tensor> upstream;  // for q, k, v, exclusive_v and perhaps first_v

  Call(Shape of, Values kind, at::ScalarType dtype) : shape(of), values(kind) {
    const auto [batch, tokens, heads, kv, dim, rope_dims] = shape;
    const auto data = [&](at::IntArrayRef sizes, std::uint64_t seed) {
      return test::normal(sizes, seed, dtype);
    };
    const bool residual = kind != Values::plain && kind != Values::embedded;
    const bool blends = kind == Values::blend_first || kind == Values::blend;
    const bool later = kind == Values::blend || kind == Values::weigh;
    inputs = {data({batch, tokens, (heads + 2 * kv) * dim}, 1),
              test::normal({heads}, 2, at::kFloat),
              {},
              {},
              {}};
    if (kind != Values::plain && kind != Values::blend_first)
      inputs[2] = data({batch, tokens, kv * dim}, 3);
    if (residual) inputs[3] = test::normal({2}, 4, at::kFloat);
    if (blends) inputs[3] = inputs[3][0].clone();
    if (later) inputs[4] = data({batch, tokens, kv, dim}, 5);
    upstream = {data({batch, tokens, heads, dim}, 6), data({batch, tokens, kv, dim}, 7),
                data({batch, tokens, kv, dim}, 8), data({batch, tokens, kv, dim}, 9)};
    if (residual) upstream.push_back(data({batch, tokens, kv, dim}, 10));
  }

  // q, k, v, then the gradients of the inputs that are defined.
  std::vector<at::Tensor> run(at::Device device, at::ScalarType dtype, at::ScalarType exact) const {
    const auto to = [&](const at::Tensor& x) {
      if (!x.defined()) return x;
      return x.to(device, x.dim() < 2 && exact != at::kDouble ? at::kFloat : exact).detach();
    };
    std::vector<at::Tensor> x, leaves;
    for (const auto& input : inputs) {
      x.push_back(to(input));
      if (input.defined()) leaves.push_back(x.back().set_requires_grad(true));
    }
    auto table = make_rope_table(shape.tokens, {.dims = shape.rope_dims}, dtype, at::kCPU);
    table = {to(table.cos), to(table.sin)};
    const auto out = qk_norm_rope(x[0],
                                  {.heads = shape.heads,
                                   .kv_heads = shape.kv_heads,
                                   .q_gain = x[1],
                                   .value_embedding = x[2],
                                   .value_lambda = x[3],
                                   .first_v = x[4]},
                                  table);
    std::vector<at::Tensor> outputs{out.q, out.k, out.v, out.exclusive_v}, gradients;
    if (out.first_v.defined()) outputs.push_back(out.first_v);
    for (const auto& gradient : upstream) gradients.push_back(to(gradient));
    // Strided views as attention's backward returns them: heads before tokens, and part of a
    // tensor.
    gradients[0] = gradients[0].transpose(1, 2).contiguous().transpose(1, 2);
    gradients[1] = at::cat({gradients[1], gradients[2]}, 2).narrow(2, 0, shape.kv_heads);
    auto found = torch::autograd::grad(outputs, leaves, gradients, /*retain_graph=*/{},
                                       /*create_graph=*/false, /*allow_unused=*/true);
    found.insert(found.begin(), {out.q.detach(), out.k.detach(), out.v.detach()});
    return found;
  }
};

class QkNormRopeGpu : public test::OnGpu<::testing::TestWithParam<at::ScalarType>> {};

// Elementwise tolerance: one rounding of the output, relative; and a hundred fp32 roundings of
// terms of size one.
double rounding(at::ScalarType dtype) {
  return dtype == at::kFloat  ? std::ldexp(1, -23)
         : dtype == at::kHalf ? std::ldexp(1, -11)
                              : std::ldexp(1, -8);
}
constexpr double kTermsError = 100 * 0x1p-24;

TEST_P(QkNormRopeGpu, OutputsAndGradientsMatchTheReference) {
  const auto dtype = GetParam();
  const Shape shapes[] = {
      {2, 160, 8, 4, 64, 16},   // the record's
      {3, 77, 6, 6, 128, 128},  // the speedrun's
      {1, 1, 3, 1, 16, 16},     // one token; idle lanes and heads in the warp
      {5, 13, 5, 5, 48, 32},    // idle lanes; rotated and unrotated packs
      {1, 9001, 2, 1, 32, 16},  // more tokens than the grid has warps
      {2, 9, 4, 2, 256, 64},    // the widest in half precision; too wide in fp32
  };
  for (const auto& shape : shapes) {
    for (const auto values : kAllValues) {
      const Call call(shape, values, dtype);
      const auto found = call.run(at::kCUDA, dtype, dtype);
      const auto exact = call.run(at::kCPU, dtype, at::kDouble);
      ASSERT_EQ(found.size(), exact.size());
      const auto terms =
          static_cast<double>(shape.batch * shape.tokens * shape.head_dim * shape.kv_heads);
      for (std::size_t i = 0; i < found.size(); ++i) {
        SCOPED_TRACE(testing::Message() << "values " << static_cast<int>(values) << ", head "
                                        << shape.head_dim << ", tensor " << i);
        ASSERT_EQ(found[i].defined(), exact[i].defined());
        if (!found[i].defined()) continue;
        // Gradients of parameters are sums over the tokens in fp32, of terms of size one and either
        // sign.
        const bool sum = found[i].dim() < 2;
        EXPECT_EQ(found[i].scalar_type(), sum ? at::kFloat : dtype);
        EXPECT_TRUE(test::is_close(found[i].cpu(), exact[i], sum ? 0 : rounding(dtype),
                                   kTermsError * (sum ? 1 + std::sqrt(terms) : 4)));
      }
    }
  }
}

// The gradient of the first layer's value accumulates over two later layers, in one buffer.
TEST_P(QkNormRopeGpu, TheFirstValuesGradientPassesThroughTheLayers) {
  const auto dtype = GetParam();
  constexpr std::int64_t kLayers = 3, kTokens = 130, kHeads = 4, kKv = 2, kDim = 64;
  const auto run = [&](at::Device device, at::ScalarType exact) {
    const auto table = make_rope_table(kTokens, {.dims = 16}, exact, device);
    std::vector<at::Tensor> leaves;
    at::Tensor first_v, loss;
    for (std::uint64_t layer = 0; layer < kLayers; ++layer) {
      const auto data = [&](at::IntArrayRef sizes, std::uint64_t seed) {
        return test::normal(sizes, 10 * layer + seed, dtype).to(device, exact);
      };
      const auto qkv = data({1, kTokens, (kHeads + 2 * kKv) * kDim}, 1).set_requires_grad(true);
      const auto lambda =
          at::full({}, 0.25 + 0.125 * static_cast<double>(layer),
                   at::TensorOptions(device).dtype(exact == at::kDouble ? at::kDouble : at::kFloat))
              .set_requires_grad(true);
      leaves.insert(leaves.end(), {qkv, lambda});
      const auto out = qk_norm_rope(
          qkv, {.heads = kHeads, .kv_heads = kKv, .value_lambda = lambda, .first_v = first_v},
          table);
      first_v = out.first_v;
      const auto term = (out.v * data({1, kTokens, kKv, kDim}, 2)).sum(at::kDouble);
      loss = layer == 0 ? term : loss + term;
    }
    return torch::autograd::grad({loss}, leaves);
  };
  const auto found = run(at::kCUDA, dtype), exact = run(at::kCPU, at::kDouble);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool sum = i % 2 == 1;
    // The sum of v's three gradients, at most 4, is rounded after each addition; each term of dλ
    // has one rounding, that of first_v's gradient.
    EXPECT_TRUE(test::is_close(
        found[i].cpu(), exact[i], sum ? 0 : 2 * rounding(dtype),
        sum ? kTermsError * std::sqrt(kTokens * kKv * kDim) : 4 * rounding(dtype) + kTermsError))
        << "tensor " << i;
  }
}

TEST_P(QkNormRopeGpu, TwiceTheSameBits) {
  const Call call({3, 700, 8, 4, 64, 16}, Values::weigh, GetParam());
  const auto once = call.run(at::kCUDA, GetParam(), GetParam());
  const auto twice = call.run(at::kCUDA, GetParam(), GetParam());
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(at::equal(once[i], twice[i])) << i;
}

TEST_P(QkNormRopeGpu, AnUnchangedValueIsNotCopied) {
  const auto qkv = test::normal({2, 8, 8 * 64}, 1, GetParam()).to(at::kCUDA);
  const auto table = make_rope_table(8, {.dims = 16}, GetParam(), at::kCUDA);
  const auto lambda = at::ones({2}, at::kCUDA);
  QkvInputs in{.heads = 4, .kv_heads = 2, .value_lambda = lambda};
  const auto first = qk_norm_rope(qkv, in, table);
  EXPECT_TRUE(first.v.is_alias_of(qkv));
  in.first_v = first.first_v;
  const auto later = qk_norm_rope(qkv, in, table);
  EXPECT_FALSE(later.v.is_alias_of(qkv));
  EXPECT_TRUE(later.first_v.is_alias_of(qkv));
}

TEST_P(QkNormRopeGpu, OutputsThatTheLossDoesNotUseHaveNoGradient) {
  const auto qkv =
      test::normal({1, 5, 8 * 64}, 1, GetParam()).to(at::kCUDA).set_requires_grad(true);
  const auto table = make_rope_table(5, {.dims = 16}, GetParam(), at::kCUDA);
  const auto out = qk_norm_rope(qkv, {.heads = 4, .kv_heads = 2}, table);
  out.k.backward(at::ones_like(out.k));
  const auto gradient = qkv.grad().unflatten(-1, {8, 64});
  EXPECT_EQ(gradient.narrow(2, 0, 4).count_nonzero().item<std::int64_t>(), 0);
  EXPECT_GT(gradient.narrow(2, 4, 2).count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(gradient.narrow(2, 6, 2).count_nonzero().item<std::int64_t>(), 0);
}

TEST_P(QkNormRopeGpu, OtherWidthsRunAsTheReference) {
  // A head that is not a multiple of 16 bytes, and a rotated half that is not.
  for (const Shape& shape : {Shape{2, 9, 4, 2, 18, 16}, Shape{2, 9, 4, 2, 64, 4}}) {
    const Call call(shape, Values::blend, GetParam());
    const auto found = call.run(at::kCUDA, GetParam(), GetParam());
    set_fused(false);
    const auto reference = call.run(at::kCUDA, GetParam(), GetParam());
    set_fused(true);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(at::equal(found[i], reference[i])) << shape.head_dim << ", tensor " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, QkNormRopeGpu,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& tested) {
                           return std::string(c10::toString(tested.param));
                         });

}  // namespace
}  // namespace tg
