// Tests the kernels of residual_norm against the reference in fp64. Skipped without a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/fused.h"
#include "ops/norm/residual_norm.h"
#include "tests/ops/norm/residual_chain.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

constexpr auto kDevice = test::kGpu;

enum class Mix { none, scalar, vector };
// The terms of a call, and the outputs that the loss uses.
struct Call {
  const char* name;
  bool branch = false, skip = false;
  Mix mix = Mix::none;
  bool keep_sum = false;
  bool defers = false;  // defers the norm if that is supported
  bool padded = false;  // three channels are excluded from the mean
  bool blend = false;   // weights of x + branch and the skip; without a skip, of x + branch alone
  bool scalar_skip = false;  // the skip's weight is []
  bool accumulates = false;  // the gradient of the weights accumulates into a buffer of ones
  std::string unused = "";   // outputs without an upstream gradient: letters of s, x, y, 0 (x0)
};
// Calls that individual tests also use.
const Call kScalarMix{.name = "between blocks, scalar mix", .branch = true, .mix = Mix::scalar};
const Call kPopsSkip{
    .name = "between blocks, pops a skip", .branch = true, .skip = true, .mix = Mix::vector};
const Call kAllTerms{
    .name = "all terms", .branch = true, .skip = true, .mix = Mix::vector, .keep_sum = true};
const Call kGatedSkip{.name = "a gated skip",
                      .branch = true,
                      .skip = true,
                      .mix = Mix::vector,
                      .blend = true,
                      .accumulates = true};
const std::vector<Call> kCalls{
    {.name = "norm alone"},
    {.name = "norm alone, with its sum", .keep_sum = true},
    {.name = "inside a block, or the last norm", .branch = true},
    {.name = "inside a block, with its sum", .branch = true, .keep_sum = true},
    {.name = "skip without a mix", .branch = true, .skip = true, .keep_sum = true},
    {.name = "a skip with a scalar weight",
     .branch = true,
     .skip = true,
     .mix = Mix::scalar,
     .keep_sum = true,
     .scalar_skip = true},
    {.name = "inside a block, deferred", .branch = true, .defers = true},
    {.name = "norm alone, deferred", .keep_sum = true, .defers = true},
    {.name = "all terms, deferred",
     .branch = true,
     .skip = true,
     .mix = Mix::vector,
     .keep_sum = true,
     .defers = true},
    {.name = "padded", .branch = true, .mix = Mix::scalar, .padded = true},
    {.name = "first block", .mix = Mix::vector, .unused = "0"},
    kScalarMix,
    {.name = "between blocks, pushes a skip", .branch = true, .mix = Mix::vector, .keep_sum = true},
    kPopsSkip,
    {.name = "all terms, scalar mix",
     .branch = true,
     .skip = true,
     .mix = Mix::scalar,
     .keep_sum = true},
    kAllTerms,
    kGatedSkip,
    {.name = "a gated skip, with its sum and deferred",
     .branch = true,
     .skip = true,
     .mix = Mix::vector,
     .keep_sum = true,
     .defers = true,
     .blend = true},
    {.name = "a gated skip, scalar mix, padded",
     .branch = true,
     .skip = true,
     .mix = Mix::scalar,
     .padded = true,
     .blend = true},
    {.name = "x itself is the skip",
     .branch = true,
     .mix = Mix::vector,
     .blend = true,
     .accumulates = true},
    {.name = "only y is used",
     .branch = true,
     .skip = true,
     .mix = Mix::vector,
     .keep_sum = true,
     .unused = "sx0"},
    {.name = "y is not used",
     .branch = true,
     .skip = true,
     .mix = Mix::vector,
     .keep_sum = true,
     .unused = "y"},
    {.name = "only x0 is used",
     .branch = true,
     .mix = Mix::vector,
     .keep_sum = true,
     .unused = "sxy"},
};

struct Case {
  at::ScalarType dtype;
  // Relative: twice for the element, once for the root mean square. Half precision: one rounding,
  // since y contains the rounding of x' and its own. fp32: dozens of 2^-24, from the sums and the
  // root.
  double tolerance;
};

using Named = std::vector<std::pair<std::string, at::Tensor>>;

class ResidualNormGpu : public test::OnGpu<::testing::TestWithParam<Case>> {
 protected:
  // Returns outputs and gradients, computed in `dtype` from inputs rounded to the tested dtype.
  static Named run(const Call& call, std::int64_t rows, std::int64_t width, at::Device device,
                   at::ScalarType dtype) {
    std::uint64_t seed = 1;
    const auto make = [&](at::IntArrayRef shape, at::ScalarType rounded, at::ScalarType computed) {
      return test::normal(shape, seed++, rounded).to(device, computed);
    };
    Named leaves;
    const auto leaf = [&](const char* name, bool given, at::IntArrayRef shape, bool parameter) {
      const auto rounded = parameter ? at::kFloat : GetParam().dtype;
      const auto computed = dtype == at::kDouble ? at::kDouble : rounded;
      auto tensor = make(shape, rounded, computed);
      // Bounded, because the tolerance assumes elements of similar size.
      if (parameter) tensor = tensor.tanh().to(at::kFloat).to(computed);
      if (!given) return at::Tensor();
      tensor.set_requires_grad(true);
      leaves.emplace_back(name, tensor);
      return tensor;
    };
    const auto data = [&](const char* name, bool given) {
      return leaf(name, given, {rows, width}, false);
    };
    const auto parameter = [&](const char* name, bool given, at::IntArrayRef shape) {
      return leaf(name, given, shape, true);
    };
    const auto blend = [&]() -> MixWeight {
      const auto leaf_of = parameter("skip_blend", call.blend, {2, width});
      if (!call.accumulates) return leaf_of;
      leaf_of.mutable_grad() = at::ones_like(leaf_of);
      return {leaf_of.detach(), leaf_of.grad()};
    };
    const bool mixed = call.mix != Mix::none;
    const std::vector<std::int64_t> skip_shape(call.scalar_skip ? 0 : 1, width);
    const test::ResidualChain terms{
        .x = data("x", true),
        .branch = data("branch", call.branch),
        .skip = data("skip", call.skip),
        .skip_weight = parameter("skip_weight", call.skip && !call.blend, skip_shape),
        .x0 = data("x0", mixed),
        .mix = call.mix == Mix::vector ? parameter("mix", mixed, {2, width})
                                       : parameter("mix", mixed, {2}),
        .branch_gradient_scaling = {},
        .skip_blend = blend()};
    const auto out =
        residual_norm(terms.terms(),
                      {.scale = 0.5,
                       .channels = call.padded ? width - 3 : 0,
                       .form = call.defers ? NormedForm::deferred_scale : NormedForm::materialized},
                      call.keep_sum ? terms.keep() : 0);
    auto y = out.y.tensor();
    EXPECT_EQ(out.y.row_scale().defined(), call.defers && dtype == at::kBFloat16);
    if (out.y.row_scale().defined()) {
      EXPECT_EQ(y.const_data_ptr(), out.x.const_data_ptr());
      y = y.to(at::kFloat) * out.y.row_scale().view({rows, 1});
    }
    Named all{{"x'", out.x}, {"y", y}};
    if (call.keep_sum) all.emplace_back("s", out.sum);
    torch::autograd::variable_list outputs, upstream;
    for (const auto& [letter, output] :
         {std::pair{'s', out.sum}, {'x', out.x}, {'y', y}, {'0', out.x0}}) {
      const auto gradient = make({rows, width}, GetParam().dtype, dtype);
      if (!output.defined() || call.unused.find(letter) != std::string::npos) continue;
      outputs.push_back(output);
      upstream.push_back(gradient.to(output.scalar_type()));
    }
    torch::autograd::backward(outputs, upstream);
    for (const auto& [name, tensor] : leaves) {
      // An input without influence has a zero gradient or none.
      all.emplace_back("d" + name,
                       tensor.grad().defined() ? tensor.grad() : at::zeros_like(tensor));
    }
    return all;
  }

  static void compare(const Named& found, const Named& exact, const std::string& what,
                      double tolerance = GetParam().tolerance) {
    ASSERT_EQ(found.size(), exact.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double magnitude = exact[i].second.square().mean().sqrt().item<double>();
      EXPECT_TRUE(test::is_close(found[i].second.cpu(), exact[i].second, 2 * tolerance,
                                 tolerance * magnitude + 1e-30))
          << found[i].first << " of " << what;
    }
  }

  static void check(const Call& call, std::int64_t rows, std::int64_t width) {
    compare(run(call, rows, width, kDevice, GetParam().dtype),
            run(call, rows, width, at::kCPU, at::kDouble),
            fmt::format("{}, {} rows of {}", call.name, rows, width),
            // The gradient of a deferred y is rounded after it is scaled.
            (call.defers ? 2 : 1) * GetParam().tolerance);
  }
};

TEST_P(ResidualNormGpu, EveryCombinationOfTermsMatchesTheReference) {
  for (const auto& call : kCalls) {
    // A partial chunk, the recipes' widths, and a width with one block per row.
    for (const std::int64_t width : {64, 512, 768, 1032}) check(call, 37, width);
  }
}

TEST_P(ResidualNormGpu, EveryWidthMatchesTheReference) {
  for (const std::int64_t width : {8, 16, 248, 256, 264, 520, 776, 1536, 2048}) {
    for (const std::int64_t rows : {1, 3, 130}) check(kAllTerms, rows, width);
    check(kGatedSkip, 3, width);
  }
  for (const std::int64_t width : {512, 768}) check(kPopsSkip, 1, width);
}

TEST_P(ResidualNormGpu, MoreRowsThanTheGridHolds) {
  for (const std::int64_t width : {512, 768}) {
    for (const auto& call : {kScalarMix, kAllTerms}) check(call, 5003, width);
  }
}

TEST_P(ResidualNormGpu, TwiceTheSameBits) {
  const auto twice = [] { return run(kAllTerms, 5003, 768, kDevice, GetParam().dtype); };
  const auto first = twice(), second = twice();
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_TRUE(at::equal(first[i].second, second[i].second)) << first[i].first;
}

// Only in fp32: the reference rounds more often than a kernel.
class ResidualNormReferenceGpu : public ResidualNormGpu {};

TEST_P(ResidualNormReferenceGpu, AWidthWithoutKernelRunsTheReference) {
  for (const std::int64_t width : {20, 2056}) check(kAllTerms, 5, width);
}

// A chain of blocks through x0, without and with an upstream gradient of the last x0, which the
// caller still holds.
TEST_P(ResidualNormGpu, TheGradientOfX0IsThatOfAllBlocks) {
  const auto chain = [](at::Device device, at::ScalarType dtype, bool last) {
    const auto make = [&](at::IntArrayRef shape, std::uint64_t seed, bool parameter) {
      const auto rounded = parameter ? at::kFloat : GetParam().dtype;
      return test::normal(shape, seed, rounded)
          .to(device, dtype == at::kDouble ? at::kDouble : rounded);
    };
    const auto x0 = make({9, 512}, 1, false).set_requires_grad(true);
    const auto mix = make({2, 512}, 2, true), upstream = make({9, 512}, 3, false);
    const auto before = upstream.clone();
    ResidualNorm out{.sum = {}, .x = x0, .y = {}, .x0 = x0};
    for (int block = 0; block < 3; ++block) {
      const auto y = out.y.tensor();
      out = residual_norm(
          test::ResidualChain{.x = out.x, .branch = y, .x0 = out.x0, .mix = mix}.terms());
    }
    torch::autograd::variable_list outputs{out.y.tensor()}, gradients{upstream};
    if (last) outputs.push_back(out.x0), gradients.push_back(upstream);
    torch::autograd::backward(outputs, gradients);
    EXPECT_TRUE(at::equal(upstream, before)) << "the caller's gradient was written to";
    return Named{{"dx0", x0.grad()}};
  };
  for (const bool last : {false, true}) {
    // Three blocks round x', dx and dx0 in turn.
    compare(chain(kDevice, GetParam().dtype, last), chain(at::kCPU, at::kDouble, last),
            "three blocks", 8 * GetParam().tolerance);
  }
}

TEST_P(ResidualNormGpu, FrozenTensorsGetNoGradient) {
  const auto data = [](std::uint64_t seed) {
    return test::normal({7, 512}, seed, GetParam().dtype).to(kDevice);
  };
  const auto x = data(1), branch = data(2), x0 = data(3);
  const auto mix = test::normal({2, 512}, 5, at::kFloat).to(kDevice);
  const test::ResidualChain terms{.x = x, .branch = branch, .x0 = x0, .mix = mix};
  const auto gradient_of_mix = [&] {
    mix.mutable_grad().reset();
    residual_norm(terms.terms()).y.tensor().sum().backward();
    return mix.grad();
  };
  mix.set_requires_grad(true);
  const auto alone = gradient_of_mix();
  EXPECT_FALSE(x.grad().defined());
  for (const auto& other : {x, branch, x0}) other.set_requires_grad(true);
  EXPECT_TRUE(at::equal(alone, gradient_of_mix()));
}

TEST_P(ResidualNormGpu, TakesStridedRowsAndUnalignedAddresses) {
  const auto wide = test::normal({6, 1028}, 1, GetParam().dtype).to(kDevice);
  const auto x = wide.narrow(1, 2, 512), branch = wide.narrow(1, 515, 512);
  const auto found = residual_norm({{.tensor = x}, {.tensor = branch}});
  const auto expected = residual_norm({{.tensor = x.clone()}, {.tensor = branch.clone()}});
  EXPECT_TRUE(at::equal(found.x, expected.x));
  EXPECT_TRUE(at::equal(found.y.rows(), expected.y.rows()));
}

constexpr Case kFp32{.dtype = at::kFloat, .tolerance = 1e-5};

INSTANTIATE_TEST_SUITE_P(Dtypes, ResidualNormGpu,
                         ::testing::Values(kFp32,
                                           Case{.dtype = at::kBFloat16, .tolerance = 1.0 / 256},
                                           Case{.dtype = at::kHalf, .tolerance = 1.0 / 2048}),
                         [](const auto& tested) {
                           return std::string(c10::toString(tested.param.dtype));
                         });
INSTANTIATE_TEST_SUITE_P(Fp32, ResidualNormReferenceGpu, ::testing::Values(kFp32));

}  // namespace
}  // namespace tg
