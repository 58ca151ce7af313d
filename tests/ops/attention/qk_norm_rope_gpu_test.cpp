// Tests the kernels of ops/attention/projection/qk_norm_rope.h against the reference in fp64 on the
// CPU.
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/attention/projection/qk_norm_rope.h"
#include "ops/fused.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

struct Shape {
  std::int64_t batch, tokens, heads, kv_heads, head_dim, rope_dims;
  std::int64_t channels = 0;  // channels per head that the mean counts; 0: all
  bool interleaved = false;   // pairs of channels
  bool paired = false;        // heads, with two tables
  bool key_offset = false;

  RopeTable table(at::ScalarType dtype) const {
    const RopeOptions options{.dims = rope_dims, .interleaved = interleaved};
    return paired ? make_paired_rope_table(tokens, options, dtype, at::kCPU)
                  : make_rope_table(tokens, options, dtype, at::kCPU);
  }
};

// The value residual: `first_layer` and `later` also have an embedding.
enum class Values { plain, embedded, first_layer, later, later_alone };
constexpr Values kAllValues[] = {Values::plain, Values::embedded, Values::first_layer,
                                 Values::later, Values::later_alone};

// The inputs of a call; undefined ones are omitted.
struct Inputs {
  at::Tensor qkv, q_gain, embedding, first_v, first_weight;
};

// Tensors, each with the name of the output, or of the input for a gradient.
using Named = std::vector<std::pair<std::string, at::Tensor>>;

// One call and its gradients, on inputs rounded to `dtype`, which both the kernels and fp64 use.
struct Call {
  Shape shape;
  Values values;
  Inputs inputs;
  struct {
    at::Tensor q, k, v, exclusive_v, first_v;
  } upstream;  // first_v: undefined without a residual

  Call(Shape call_shape, Values kind, at::ScalarType dtype) : shape(call_shape), values(kind) {
    const auto batch = shape.batch, tokens = shape.tokens, heads = shape.heads, kv = shape.kv_heads,
               dim = shape.head_dim;
    const auto data = [&](at::IntArrayRef sizes, std::uint64_t seed) {
      return test::normal(sizes, seed, dtype);
    };
    const bool later = kind == Values::later || kind == Values::later_alone;
    inputs.qkv = data({batch, tokens, (heads + 2 * kv) * dim}, 1);
    inputs.q_gain = test::normal({heads}, 2, at::kFloat);
    if (kind != Values::plain && kind != Values::later_alone) {
      inputs.embedding = data({batch, tokens, kv * dim}, 3);
    }
    if (later) {
      inputs.first_weight = test::normal({}, 4, at::kFloat);
      inputs.first_v = data({batch, tokens, kv, dim}, 5);
    }
    upstream = {.q = data({batch, tokens, heads, dim}, 6),
                .k = data({batch, tokens, kv, dim}, 7),
                .v = data({batch, tokens, kv, dim}, 8),
                .exclusive_v = data({batch, tokens, kv, dim}, 9),
                .first_v = residual() ? data({batch, tokens, kv, dim}, 10) : at::Tensor()};
  }

  bool residual() const { return values != Values::plain && values != Values::embedded; }

  // Returns q, k, v, then the gradients of the defined inputs.
  Named run(at::Device device, at::ScalarType dtype, at::ScalarType exact) const {
    const auto to = [&](const at::Tensor& x) {
      if (!x.defined()) return x;
      return x.to(device, x.dim() < 2 && exact != at::kDouble ? at::kFloat : exact).detach();
    };
    std::vector<std::string> names;
    std::vector<at::Tensor> leaves;
    const auto leaf = [&](const char* name, const at::Tensor& input) {
      if (!input.defined()) return input;
      names.push_back(fmt::format("gradient of {}", name));
      leaves.push_back(to(input).set_requires_grad(true));
      return leaves.back();
    };
    const Inputs in{.qkv = leaf("qkv", inputs.qkv),
                    .q_gain = leaf("q_gain", inputs.q_gain),
                    .embedding = leaf("embedding", inputs.embedding),
                    .first_v = leaf("first_v", inputs.first_v),
                    .first_weight = leaf("first_weight", inputs.first_weight)};
    auto table = shape.table(dtype);
    table = {to(table.cos), to(table.sin), table.interleaved};
    const auto out = qk_norm_rope(in.qkv,
                                  {.heads = shape.heads,
                                   .kv_heads = shape.kv_heads,
                                   .q_gain = in.q_gain,
                                   .value_embedding = in.embedding,
                                   .value_residual = residual(),
                                   .first_v = in.first_v,
                                   .first_weight = in.first_weight,
                                   .channels = shape.channels,
                                   .key_offset = shape.key_offset},
                                  table);
    // Strided views as attention's backward pass returns them: heads before tokens, and part of a
    // larger tensor.
    const auto dq = to(upstream.q).transpose(1, 2).contiguous().transpose(1, 2);
    const auto dk = at::cat({to(upstream.k), to(upstream.v)}, 2).narrow(2, 0, shape.kv_heads);
    std::vector<at::Tensor> outputs{out.q, out.k, out.v, out.exclusive_v};
    std::vector<at::Tensor> gradients{dq, dk, to(upstream.v), to(upstream.exclusive_v)};
    if (out.first_v.defined()) {
      outputs.push_back(out.first_v);
      gradients.push_back(to(upstream.first_v));
    }
    const auto of_leaves = torch::autograd::grad(outputs, leaves, gradients, /*retain_graph=*/{},
                                                 /*create_graph=*/false, /*allow_unused=*/true);
    Named found{{"q", out.q.detach()}, {"k", out.k.detach()}, {"v", out.v.detach()}};
    for (std::size_t i = 0; i < names.size(); ++i) found.emplace_back(names[i], of_leaves[i]);
    return found;
  }
};

class QkNormRopeGpu : public test::OnGpu<::testing::TestWithParam<at::ScalarType>> {};

// Elementwise tolerance: one relative rounding of the output and a hundred fp32 roundings of terms
// of size one.
double rounding(at::ScalarType dtype) {
  return dtype == at::kFloat  ? std::ldexp(1, -23)
         : dtype == at::kHalf ? std::ldexp(1, -11)
                              : std::ldexp(1, -8);
}
constexpr double kTermsError = 100 * 0x1p-24;

void expect_reference(const Shape& shape, Values values, at::ScalarType dtype) {
  const Call call(shape, values, dtype);
  const auto found = call.run(test::kGpu, dtype, dtype);
  const auto exact = call.run(at::kCPU, dtype, at::kDouble);
  ASSERT_EQ(found.size(), exact.size());
  const auto terms =
      static_cast<double>(shape.batch * shape.tokens * shape.head_dim * shape.kv_heads);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& [name, tensor] = found[i];
    const auto& right = exact[i].second;
    SCOPED_TRACE(testing::Message() << "values " << static_cast<int>(values) << ", head "
                                    << shape.head_dim << ", " << name);
    ASSERT_EQ(tensor.defined(), right.defined());
    if (!tensor.defined()) continue;
    // Gradients of parameters are fp32 sums over the tokens, of terms of size one and either sign.
    const bool sum = tensor.dim() < 2;
    EXPECT_EQ(tensor.scalar_type(), sum ? at::kFloat : dtype);
    EXPECT_TRUE(test::is_close(tensor.cpu(), right, sum ? 0 : rounding(dtype),
                               kTermsError * (sum ? 1 + std::sqrt(terms) : 4)));
  }
}

TEST_P(QkNormRopeGpu, OutputsAndGradientsMatchTheReference) {
  const Shape shapes[] = {
      // The record's and the speedrun's shapes.
      {.batch = 2, .tokens = 160, .heads = 8, .kv_heads = 4, .head_dim = 64, .rope_dims = 16},
      {.batch = 3, .tokens = 77, .heads = 6, .kv_heads = 6, .head_dim = 128, .rope_dims = 128},
      // One token; idle lanes and heads in the warp.
      {.batch = 1, .tokens = 1, .heads = 3, .kv_heads = 1, .head_dim = 16, .rope_dims = 16},
      // Idle lanes; rotated and unrotated packs.
      {.batch = 5, .tokens = 13, .heads = 5, .kv_heads = 5, .head_dim = 48, .rope_dims = 32},
      // More tokens than the grid has warps.
      {.batch = 1, .tokens = 9001, .heads = 2, .kv_heads = 1, .head_dim = 32, .rope_dims = 16},
      // The widest head in half precision; too wide for a kernel in fp32.
      {.batch = 2, .tokens = 9, .heads = 4, .kv_heads = 2, .head_dim = 256, .rope_dims = 64},
      // Padded heads.
      {.batch = 2,
       .tokens = 160,
       .heads = 8,
       .kv_heads = 4,
       .head_dim = 64,
       .rope_dims = 64,
       .channels = 50},
  };
  for (const auto& shape : shapes) {
    for (const auto values : kAllValues) expect_reference(shape, values, GetParam());
  }
}

TEST_P(QkNormRopeGpu, InterleavedPairsPairedHeadsAndTheKeyOffsetMatchTheReference) {
  // Records 89 and 91; few heads and a row of one token; idle lanes and heads in the warp; heads
  // that fill a warp in half precision.
  const Shape shapes[] = {
      {.batch = 2, .tokens = 77, .heads = 6, .kv_heads = 6, .head_dim = 128, .rope_dims = 64},
      {.batch = 2,
       .tokens = 77,
       .heads = 6,
       .kv_heads = 6,
       .head_dim = 128,
       .rope_dims = 48,
       .channels = 96},
      {.batch = 3, .tokens = 1, .heads = 2, .kv_heads = 2, .head_dim = 64, .rope_dims = 64},
      {.batch = 5,
       .tokens = 13,
       .heads = 6,
       .kv_heads = 2,
       .head_dim = 48,
       .rope_dims = 24,
       .channels = 32},
      {.batch = 2, .tokens = 9, .heads = 4, .kv_heads = 2, .head_dim = 256, .rope_dims = 64},
  };
  for (auto shape : shapes) {
    shape.interleaved = true;
    for (const bool paired : {false, true}) {
      for (const bool key_offset : {false, true}) {
        SCOPED_TRACE(testing::Message() << "paired " << paired << ", key offset " << key_offset);
        shape.paired = paired, shape.key_offset = key_offset;
        for (const auto values : {Values::plain, Values::later})
          expect_reference(shape, values, GetParam());
      }
    }
  }
}

// The gradient of the first layer's value accumulates over two later layers in one buffer.
TEST_P(QkNormRopeGpu, TheFirstValuesGradientPassesThroughTheLayers) {
  const auto dtype = GetParam();
  constexpr std::int64_t kLayers = 3, kTokens = 130, kHeads = 4, kKv = 2, kDim = 64;
  struct Gradients {
    std::vector<at::Tensor> qkv, weight;  // one for each layer
  };
  const auto run = [&](at::Device device, at::ScalarType exact) {
    const auto table = make_rope_table(kTokens, {.dims = 16}, exact, device);
    std::vector<at::Tensor> qkvs, weights;  // one for each layer
    at::Tensor first_v, loss;
    for (std::uint64_t layer = 0; layer < kLayers; ++layer) {
      const auto data = [&](at::IntArrayRef sizes, std::uint64_t seed) {
        return test::normal(sizes, 10 * layer + seed, dtype).to(device, exact);
      };
      const auto qkv = data({1, kTokens, (kHeads + 2 * kKv) * kDim}, 1).set_requires_grad(true);
      const auto weight =
          at::full({}, 0.25 + 0.125 * static_cast<double>(layer),
                   at::TensorOptions(device).dtype(exact == at::kDouble ? at::kDouble : at::kFloat))
              .set_requires_grad(true);
      qkvs.push_back(qkv), weights.push_back(weight);
      const auto out = qk_norm_rope(qkv,
                                    {.heads = kHeads,
                                     .kv_heads = kKv,
                                     .value_residual = true,
                                     .first_v = first_v,
                                     .first_weight = weight},
                                    table);
      first_v = out.first_v;
      const auto term = (out.v * data({1, kTokens, kKv, kDim}, 2)).sum(at::kDouble);
      loss = layer == 0 ? term : loss + term;
    }
    loss.backward();
    Gradients found;
    for (const auto& qkv : qkvs) found.qkv.push_back(qkv.grad());
    for (const auto& weight : weights) found.weight.push_back(weight.grad());
    return found;
  };
  const auto found = run(test::kGpu, dtype), exact = run(at::kCPU, at::kDouble);
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    // The sum of v's three gradients, at most 4, is rounded after each addition.
    EXPECT_TRUE(test::is_close(found.qkv[layer].cpu(), exact.qkv[layer], 2 * rounding(dtype),
                               4 * rounding(dtype) + kTermsError))
        << "qkv of layer " << layer;
    ASSERT_EQ(found.weight[layer].defined(), layer > 0);
    if (layer == 0) continue;
    // Each term of the weight's gradient contains one rounding, of first_v's gradient.
    EXPECT_TRUE(test::is_close(found.weight[layer].cpu(), exact.weight[layer], 0,
                               kTermsError * std::sqrt(kTokens * kKv * kDim)))
        << "weight of layer " << layer;
  }
}

TEST_P(QkNormRopeGpu, GivesTheSameBitsAgain) {
  const Shape shape{
      .batch = 3, .tokens = 700, .heads = 8, .kv_heads = 4, .head_dim = 64, .rope_dims = 16};
  const Call call(shape, Values::later, GetParam());
  const auto once = call.run(test::kGpu, GetParam(), GetParam());
  const auto twice = call.run(test::kGpu, GetParam(), GetParam());
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_TRUE(at::equal(once[i].second, twice[i].second)) << once[i].first;
  }
}

TEST_P(QkNormRopeGpu, AnUnchangedValueIsNotCopied) {
  const auto qkv = test::normal({2, 8, 8 * 64}, 1, GetParam()).to(test::kGpu);
  const auto table = make_rope_table(8, {.dims = 16}, GetParam(), test::kGpu);
  QkvInputs in{.heads = 4, .kv_heads = 2, .value_residual = true};
  const auto first = qk_norm_rope(qkv, in, table);
  EXPECT_TRUE(first.v.is_alias_of(qkv));
  in.first_v = first.first_v;
  in.first_weight = at::ones({}, test::kGpu);
  const auto later = qk_norm_rope(qkv, in, table);
  EXPECT_FALSE(later.v.is_alias_of(qkv));
  EXPECT_TRUE(later.first_v.is_alias_of(qkv));
}

TEST_P(QkNormRopeGpu, OutputsThatTheLossDoesNotUseHaveNoGradient) {
  const auto qkv =
      test::normal({1, 5, 8 * 64}, 1, GetParam()).to(test::kGpu).set_requires_grad(true);
  const auto table = make_rope_table(5, {.dims = 16}, GetParam(), test::kGpu);
  const auto out = qk_norm_rope(qkv, {.heads = 4, .kv_heads = 2}, table);
  out.k.backward(at::ones_like(out.k));
  const auto parts = qkv.grad().unflatten(-1, {8, 64}).split_with_sizes({4, 2, 2}, 2);
  const auto &of_q = parts[0], &of_k = parts[1], &of_v = parts[2];
  EXPECT_EQ(of_q.count_nonzero().item<std::int64_t>(), 0);
  EXPECT_GT(of_k.count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(of_v.count_nonzero().item<std::int64_t>(), 0);
}

TEST_P(QkNormRopeGpu, OtherWidthsRunAsTheReference) {
  // A head that is not a multiple of 16 bytes, and a rotated half that is not.
  const Shape shapes[] = {
      {.batch = 2, .tokens = 9, .heads = 4, .kv_heads = 2, .head_dim = 18, .rope_dims = 16},
      {.batch = 2, .tokens = 9, .heads = 4, .kv_heads = 2, .head_dim = 64, .rope_dims = 4}};
  for (const auto& shape : shapes) {
    const Call call(shape, Values::later, GetParam());
    const auto found = call.run(test::kGpu, GetParam(), GetParam());
    set_fused(false);
    const auto reference = call.run(test::kGpu, GetParam(), GetParam());
    set_fused(true);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(at::equal(found[i].second, reference[i].second))
          << "head " << shape.head_dim << ", " << found[i].first;
    }
  }
}

TEST_P(QkNormRopeGpu, OnlyWithInterleavedPairsThereAreTwoTablesOrAKeyOffset) {
  const auto x = test::normal({2, 8, 16}, 1, GetParam()).to(test::kGpu);
  const auto table = [&](bool interleaved, bool paired) {
    const Shape shape{.batch = 2,
                      .tokens = 8,
                      .heads = 4,
                      .kv_heads = 4,
                      .head_dim = 64,
                      .rope_dims = 32,
                      .interleaved = interleaved,
                      .paired = paired};
    const auto on_cpu = shape.table(GetParam());
    return RopeTable{on_cpu.cos.to(test::kGpu), on_cpu.sin.to(test::kGpu), interleaved};
  };
  const auto supports = [&](const RopeTable& rope, const QkvInputs& in) {
    return qk_norm_rope_kernels_support(x, 64, in, rope);
  };
  const QkvInputs plain{.heads = 4, .kv_heads = 4}, odd{.heads = 4, .kv_heads = 3},
      offset{.heads = 4, .kv_heads = 4, .key_offset = true},
      ragged{.heads = 4, .kv_heads = 4, .channels = 36, .key_offset = true};
  EXPECT_TRUE(supports(table(false, false), plain));
  EXPECT_FALSE(supports(table(false, false), offset));
  EXPECT_FALSE(supports(table(false, true), plain));
  EXPECT_TRUE(supports(table(true, false), offset));
  EXPECT_FALSE(supports(table(true, false), ragged));
  EXPECT_TRUE(supports(table(true, true), plain));
  EXPECT_FALSE(supports(table(true, true), odd));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, QkNormRopeGpu,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& tested) {
                           return std::string(c10::toString(tested.param));
                         });

}  // namespace
}  // namespace tg
