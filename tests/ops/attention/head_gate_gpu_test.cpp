// Tests gated heads, also of exclusive attention (ops/attention/gates/xsa.h, head_gate.h): the
// kernels against the reference in fp64 on the CPU, and the gradient of the gate's input, which
// bypasses autograd, alone and as the QKV projection adds it.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "ops/attention/gates/xsa.h"
#include "ops/attention/projection/qkv_proj_norm_rope.h"
#include "ops/kernels.h"
#include "tests/ops/attention/passed_gradients.h"
#include "tests/ops/gemm/fp8.h"
#include "tests/ops/on_fp8_gpu.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"
#include "tests/ops/worst_row.h"

namespace tg {
namespace {

struct Case {
  const char* name;
  std::int64_t batch, tokens, heads, kv_heads, head_dim, window;
  bool scaled = false;  // x has a row scale
  double scale = 0.5, range = 1;
  bool exclusive = true;
};

const Case kCases[] = {
    {.name = "record",
     .batch = 2,
     .tokens = 77,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 64,
     .window = 12},
    {.name = "deferred_scale",
     .batch = 2,
     .tokens = 77,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 64,
     .window = 12,
     .scaled = true},
    {.name = "ungrouped",
     .batch = 1,
     .tokens = 133,
     .heads = 6,
     .kv_heads = 6,
     .head_dim = 128,
     .window = 16,
     .range = 2},
    {.name = "gate_alone",
     .batch = 2,
     .tokens = 77,
     .heads = 6,
     .kv_heads = 6,
     .head_dim = 128,
     .window = 12,
     .exclusive = false},
    {.name = "groups_of_three",
     .batch = 3,
     .tokens = 31,
     .heads = 6,
     .kv_heads = 2,
     .head_dim = 128,
     .window = 6,
     .scaled = true},
    {.name = "groups_of_four",
     .batch = 1,
     .tokens = 45,
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 64,
     .window = 1,
     .scale = 1,
     .range = 2},
    // More KV heads than a warp can hold, idle lanes, one token.
    {.name = "ten_heads_of_48",
     .batch = 1,
     .tokens = 13,
     .heads = 10,
     .kv_heads = 5,
     .head_dim = 48,
     .window = 12},
    {.name = "heads_of_256",
     .batch = 2,
     .tokens = 9,
     .heads = 4,
     .kv_heads = 1,
     .head_dim = 256,
     .window = 16},
    {.name = "one_token",
     .batch = 2,
     .tokens = 1,
     .heads = 3,
     .kv_heads = 3,
     .head_dim = 16,
     .window = 6},
    // More tokens than the grid has warps.
    {.name = "many_tiles",
     .batch = 1,
     .tokens = 9001,
     .heads = 2,
     .kv_heads = 1,
     .head_dim = 32,
     .window = 12},
};

constexpr std::int64_t kWidth = 40;  // of x

using Tensors = std::vector<at::Tensor>;

// y, v, x, W, the scale of x's rows and the upstream gradient.
Tensors inputs_of(const Case& c, at::ScalarType dtype) {
  const auto heads = [&](std::int64_t count, std::uint64_t seed) {
    return test::normal({c.batch, c.tokens, count, c.head_dim}, seed, dtype);
  };
  return {heads(c.heads, 1),
          heads(c.kv_heads, 2),
          test::normal({c.batch, c.tokens, kWidth}, 3, dtype),
          test::normal({c.heads, c.window}, 4, at::kFloat),
          c.scaled ? test::normal({c.batch * c.tokens}, 5, at::kFloat).abs() + 0.5 : at::Tensor(),
          heads(c.heads, 6)};
}

HeadGateInputs gate_of(const Case& c, const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& row_scale) {
  return {.x = row_scale.defined() ? NormedInput::deferred_scale(x, row_scale) : NormedInput(x),
          .weight = weight,
          .scale = c.scale,
          .range = c.range,
          .passed = test::taken_gate_x()};
}

at::Tensor attention_of(const Case& c, const Tensors& in, const HeadGateInputs& gate) {
  return exclusive_attention(in[0], c.exclusive ? in[1] : at::Tensor(), gate);
}
// Zeros for an input that is not used.
Tensors gradients(const at::Tensor& out, const Tensors& inputs, const at::Tensor& upstream) {
  auto found = torch::autograd::grad({out}, inputs, {upstream}, /*retain_graph=*/std::nullopt,
                                     /*create_graph=*/false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!found[i].defined()) found[i] = at::zeros_like(inputs[i]);
  return found;
}

// The result and the gradients of y, v, W and the first channels of x.
Tensors by_kernels(const Case& c, at::ScalarType dtype) {
  auto in = inputs_of(c, dtype);
  for (auto& tensor : in) tensor = tensor.defined() ? tensor.to(test::kGpu) : tensor;
  for (const auto i : {0, 1, 3}) in[static_cast<std::size_t>(i)].set_requires_grad(true);
  const auto gate = gate_of(c, in[2], in[3], in[4]);
  const auto out = attention_of(c, in, gate);
  const auto d = gradients(out, {in[0], in[1], in[3]}, in[5]);
  const auto& d_x = gate.passed->gate_x;
  EXPECT_TRUE(d_x.defined()) << "not by the kernels";
  return {out, d[0], d[1], d[2], d_x.view({c.batch, c.tokens, c.window})};
}
Tensors by_formula(const Case& c, at::ScalarType dtype) {
  auto in = inputs_of(c, dtype);
  for (auto& tensor : in) tensor = tensor.defined() ? tensor.to(at::kDouble) : tensor;
  for (const auto i : {0, 1, 2, 3}) in[static_cast<std::size_t>(i)].set_requires_grad(true);
  const auto out = attention_of(c, in, gate_of(c, in[2], in[3], in[4]));
  const auto d = gradients(out, {in[0], in[1], in[3], in[2]}, in[5]);
  return {out, d[0], d[1], d[2], d[3].narrow(-1, 0, c.window)};
}

class HeadGateGpu : public test::OnGpu<::testing::TestWithParam<std::tuple<Case, at::ScalarType>>> {
};

TEST_P(HeadGateGpu, OutputAndGradientsMatchTheReference) {
  const auto& [c, dtype] = GetParam();
  const auto found = by_kernels(c, dtype), exact = by_formula(c, dtype);
  // One rounding to the dtype, and some hundred fp32 roundings of terms of up to forty.
  const double rounding = dtype == at::kFloat ? 0x1p-23 : dtype == at::kHalf ? 0x1p-11 : 0x1p-8;
  constexpr double kTermsError = 100 * 40 * 0x1p-24;
  constexpr const char* kNames[] = {"result", "dy", "dv", "dW", "dx"};
  for (std::size_t i = 0; i < exact.size(); ++i) {
    SCOPED_TRACE(kNames[i]);
    const bool in_fp32 = i > 2;
    EXPECT_EQ(found[i].scalar_type(), in_fp32 ? at::kFloat : dtype);
    // The gradient of W is a sum over tokens.
    const double terms = i == 3 ? std::sqrt(static_cast<double>(c.batch * c.tokens)) : 1;
    EXPECT_TRUE(test::is_close(found[i], exact[i], in_fp32 ? 1e-5 : rounding, terms * kTermsError));
  }
}

TEST_P(HeadGateGpu, GivesTheSameBitsAgainAndWithoutGradients) {
  const auto& [c, dtype] = GetParam();
  const auto first = by_kernels(c, dtype), second = by_kernels(c, dtype);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], second[i])) << i;
  const at::NoGradGuard no_grad;
  auto in = inputs_of(c, dtype);
  for (auto& tensor : in) tensor = tensor.defined() ? tensor.to(test::kGpu) : tensor;
  EXPECT_TRUE(at::equal(attention_of(c, in, gate_of(c, in[2], in[3], in[4])), first[0]));
}

// Heads of at most 512 bytes.
std::vector<std::tuple<Case, at::ScalarType>> cases() {
  std::vector<std::tuple<Case, at::ScalarType>> all;
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const auto& c : kCases) {
      if (c.head_dim <= 128 || dtype != at::kFloat) all.emplace_back(c, dtype);
    }
  }
  return all;
}

std::string case_name(const testing::TestParamInfo<std::tuple<Case, at::ScalarType>>& tested) {
  const auto& [c, dtype] = tested.param;
  return std::string(c.name) + "_" + c10::toString(dtype);
}

INSTANTIATE_TEST_SUITE_P(Cases, HeadGateGpu, ::testing::ValuesIn(cases()), case_name);

class HeadGateEdgesGpu : public test::OnGpu<> {};

// Positions of rows that are not at equal distances or not contiguous.
TEST_F(HeadGateEdgesGpu, TheInputMayBeAView) {
  const auto on_gpu = [](at::IntArrayRef sizes, std::uint64_t seed) {
    return test::normal(sizes, seed, at::kBFloat16).to(test::kGpu);
  };
  const auto y = on_gpu({3, 5, 4, 64}, 1), v = on_gpu({3, 5, 2, 64}, 2);
  const auto weight = test::normal({4, 12}, 3, at::kFloat).to(test::kGpu);
  const auto rows = on_gpu({3, 9, kWidth}, 4);
  const auto gated = [&](const at::Tensor& x, std::int64_t tokens) {
    const HeadGateInputs gate{.x = x, .weight = weight, .passed = test::taken_gate_x()};
    EXPECT_TRUE(head_gate_kernels_support(gate, y));
    return exclusive_attention(y.narrow(1, 0, tokens), v.narrow(1, 0, tokens), gate);
  };
  const at::NoGradGuard no_grad;
  for (const auto& x :
       {rows.narrow(1, 2, 5), rows.narrow(1, 0, 5).transpose(0, 1).contiguous().transpose(0, 1),
        rows.transpose(1, 2).contiguous().transpose(1, 2).narrow(1, 4, 5)})
    EXPECT_TRUE(at::equal(gated(x, 5), gated(x.contiguous(), 5)));
  const auto one = rows.narrow(1, 3, 1);
  EXPECT_TRUE(at::equal(gated(one, 1), gated(one.contiguous(), 1)));
}

TEST_F(HeadGateEdgesGpu, OfWrittenRowsOnlyTheChannelsThatItReadsAreKept) {
  const auto on_gpu = [](at::IntArrayRef sizes, std::uint64_t seed) {
    return test::normal(sizes, seed, at::kBFloat16).to(test::kGpu);
  };
  const auto y = on_gpu({3, 5, 4, 64}, 1).set_requires_grad(true), v = on_gpu({3, 5, 2, 64}, 2);
  const auto weight = test::normal({4, 12}, 3, at::kFloat).to(test::kGpu);
  const auto x = on_gpu({3, 5, kWidth}, 4);
  const auto out =
      exclusive_attention(y, v, {.x = x, .weight = weight, .passed = test::taken_gate_x()});
  EXPECT_TRUE(out.requires_grad());
  EXPECT_TRUE(is_sole_owner(x));
}

// Gates without a kernel run the reference: with a bias, with a wide window, and with an input that
// autograd differentiates.
TEST_F(HeadGateEdgesGpu, OtherGatesRunAsTheReference) {
  const auto on_gpu = [](at::IntArrayRef sizes, std::uint64_t seed) {
    return test::normal(sizes, seed, at::kFloat).to(test::kGpu);
  };
  const auto y = on_gpu({1, 5, 4, 64}, 1), v = on_gpu({1, 5, 2, 64}, 2), x = on_gpu({1, 5, 40}, 3);
  const auto past_autograd = test::taken_gate_x();
  const HeadGateInputs plain{.x = x, .weight = on_gpu({4, 12}, 4)};
  auto biased = plain, wide = plain;
  biased.passed = wide.passed = past_autograd;
  biased.bias = on_gpu({4}, 5);
  wide.weight = on_gpu({4, 17}, 4);
  for (const auto& gate : {plain, biased, wide}) {
    EXPECT_FALSE(head_gate_kernels_support(gate, y));
    EXPECT_TRUE(test::is_close(exclusive_attention(y, v, gate),
                               gated_heads(exclusive_attention(y, v), gate), 1e-6, 1e-7));
  }
}

enum class Form { written, deferred_scale, fp8 };
std::string form_name(const testing::TestParamInfo<Form>& tested) {
  constexpr const char* kNames[] = {"written", "deferred_scale", "fp8"};
  return kNames[static_cast<int>(tested.param)];
}

class GatedProjectionGpu : public test::OnFp8Gpu<::testing::TestWithParam<Form>> {
 protected:
  static constexpr std::int64_t kDim = 128, kHeads = 4, kKvHeads = 2, kWindow = 12;

  // The gradients of x and of the gate's W when the gate reads the projection's input and the gated
  // heads are the projection's queries.
  static Tensors gradients(bool exact) {
    const auto device = exact ? at::Device(at::kCPU) : at::Device(test::kGpu);
    const auto dtype = exact ? at::kDouble : at::kBFloat16;
    const auto form = GetParam();
    const auto make = [&](at::IntArrayRef sizes, std::uint64_t seed) {
      return test::normal(sizes, seed, at::kBFloat16).to(device, dtype);
    };
    const auto x = make({2, 77, kDim}, 1).set_requires_grad(true);
    const auto value = make({(kHeads + 2 * kKvHeads) * 64, kDim}, 2) / 16;
    const auto gate_weight = test::normal({kHeads, kWindow}, 3, at::kFloat)
                                 .to(device, exact ? at::kDouble : at::kFloat)
                                 .set_requires_grad(true);
    const auto row_scale = (test::normal({2 * 77}, 4, at::kFloat).abs() + 0.5)
                               .to(device, exact ? at::kDouble : at::kFloat);
    const Weight weight = exact               ? Weight{value, {}}
                          : form == Form::fp8 ? test::fp8_weight(value, 0x1p-4)
                                              : Weight{value, at::zeros_like(value, at::kFloat)};
    const auto normed =
        form == Form::deferred_scale ? NormedInput::deferred_scale(x, row_scale) : NormedInput(x);
    const auto table = make_rope_table(77, {.dims = 16}, dtype, device);
    const auto passed = std::make_shared<PassedGradients>();
    const auto heads = qkv_proj_norm_rope(
        normed, weight, {.heads = kHeads, .kv_heads = kKvHeads, .passed = passed}, table);
    const auto out =
        exclusive_attention(heads.q, heads.exclusive_v,
                            {.x = normed, .weight = gate_weight, .scale = 0.5, .passed = passed});
    // Includes the keys, as when attention reads them too.
    const auto with_keys = at::cat({out.flatten(2, 3), heads.k.flatten(2, 3)}, -1);
    const auto upstream = make(with_keys.sizes(), 5);
    EXPECT_EQ(passed->takes_gate_x, !exact) << "not the path that was meant";
    const auto d = torch::autograd::grad({with_keys}, {x, gate_weight}, {upstream});
    EXPECT_FALSE(passed->gate_x.defined()) << "kept longer than needed";
    return d;
  }
};

TEST_P(GatedProjectionGpu, AddsTheGatesGradientToThatOfItsInput) {
  const auto found = gradients(/*exact=*/false), right = gradients(/*exact=*/true);
  // A few roundings to bf16 or FP8 before each element.
  const double tolerance = GetParam() == Form::fp8 ? 0.15 : 4 * 0x1p-8;
  const auto first = [](const at::Tensor& x) { return x.narrow(-1, 0, kWindow); };
  const auto rest = [](const at::Tensor& x) { return x.narrow(-1, kWindow, kDim - kWindow); };
  EXPECT_LT(test::worst_row(first(found[0]), first(right[0])), tolerance);
  EXPECT_LT(test::worst_row(rest(found[0]), rest(right[0])), tolerance);
  EXPECT_LT(test::worst_row(found[1], right[1]), tolerance);
}

INSTANTIATE_TEST_SUITE_P(Forms, GatedProjectionGpu,
                         ::testing::Values(Form::written, Form::deferred_scale, Form::fp8),
                         form_name);

}  // namespace
}  // namespace tg
