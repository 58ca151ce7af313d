// Tests the kernels of ops/attention/gates/scaled_heads.h against the reference in fp64 on the CPU.
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "ops/attention/gates/scaled_heads.h"
#include "ops/fused.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

struct Shape {
  std::int64_t tokens, heads, head_dim, padding = 0;  // channels behind the heads
};
const Shape kShapes[] = {
    {.tokens = 77, .heads = 6, .head_dim = 128},
    {.tokens = 40, .heads = 6, .head_dim = 64, .padding = 16},
    // Idle lanes and heads.
    {.tokens = 1, .heads = 3, .head_dim = 16},
    {.tokens = 13, .heads = 5, .head_dim = 48, .padding = 8},
    // More tokens than the grid has warps.
    {.tokens = 9001, .heads = 2, .head_dim = 32},
};

// The output, then the gradients of the inputs, in order.
using Results = std::vector<at::Tensor>;

class ScaledHeadsGpu : public test::OnGpu<testing::TestWithParam<at::ScalarType>> {
 protected:
  // One rounding of the output.
  double rounding() const {
    return dtype_ == at::kFloat ? 0x1p-22 : dtype_ == at::kHalf ? 0x1p-11 : 0x1p-8;
  }
  // A leaf of the values of x, with x's strides.
  static at::Tensor leaf(const at::Tensor& x, at::Device device, at::ScalarType dtype) {
    auto values =
        at::empty_strided(x.sizes(), x.strides(), x.options().device(device).dtype(dtype));
    values.copy_(x);
    return values.set_requires_grad(true);
  }
  static void expect_same(const Results& found, const Results& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(at::equal(found[i], expected[i])) << "result " << i;
  }

  const at::ScalarType dtype_ = GetParam();
};

class Scaled : public ScaledHeadsGpu {
 protected:
  Results run(const Shape& shape, at::Device device, at::ScalarType dtype) const {
    const auto width = shape.heads * shape.head_dim;
    const auto x =
        leaf(test::normal({2, shape.tokens, width + shape.padding}, 1, dtype_), device, dtype);
    const auto numbers = test::normal({2, shape.tokens, shape.heads + 5}, 2, dtype_);
    const auto weights = leaf(numbers.narrow(2, 3, shape.heads), device, dtype);
    const auto d_out = test::normal({2, shape.tokens, width}, 3, dtype_).to(device, dtype);
    const auto out = scaled_heads(x, weights, shape.head_dim);
    const auto gradients = torch::autograd::grad({out}, {x, weights}, {d_out});
    return {out.detach(), gradients[0], gradients[1]};
  }
};

TEST_P(Scaled, OutputAndGradientsMatchTheReference) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << shape.heads << " heads of " << shape.head_dim);
    const auto found = run(shape, test::kGpu, dtype_), exact = run(shape, at::kCPU, at::kDouble);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].scalar_type(), dtype_);
      EXPECT_TRUE(test::is_close(found[i].cpu(), exact[i], rounding(), 100 * 4 * 0x1p-24))
          << "result " << i;
    }
  }
}

TEST_P(Scaled, OtherWidthsRunAsTheReference) {
  const Shape shape{.tokens = 9, .heads = 4, .head_dim = 18};
  const auto found = run(shape, test::kGpu, dtype_);
  set_fused(false);
  const auto reference = run(shape, test::kGpu, dtype_);
  set_fused(true);
  expect_same(found, reference);
}

class Gated : public ScaledHeadsGpu {
 protected:
  // How n's alias is read.
  enum class Reader {
    none,
    operation,  // its gradient belongs to nothing else
    caller,     // the caller keeps its gradient
  };
  Results run(const Shape& shape, at::Device device, at::ScalarType dtype,
              Reader reader = Reader::operation) const {
    const auto width = shape.heads * shape.head_dim;
    const auto rows = [&](std::int64_t channels, std::uint64_t seed) {
      return test::normal({2, shape.tokens, channels}, seed, dtype_);
    };
    const auto n = leaf(rows(40, 1), device, dtype),
               v = leaf(rows(width + shape.padding, 2), device, dtype),
               weight = leaf(test::normal({shape.heads, 12}, 3, at::kFloat), device,
                             dtype == at::kDouble ? at::kDouble : at::kFloat);
    const auto d_out = rows(width, 4).to(device, dtype), dn = rows(40, 5).to(device, dtype);
    const auto before = dn.clone();
    const auto gated = gated_values(n, v, weight, shape.head_dim);
    EXPECT_TRUE(at::equal(gated.n.tensor(), n));
    std::vector<at::Tensor> outputs{gated.values}, upstream{d_out};
    if (reader != Reader::none) {
      const auto read = gated.n.tensor();
      outputs.push_back(reader == Reader::caller ? read : read * 1);
      upstream.push_back(dn);
    }
    auto gradients = torch::autograd::grad(outputs, {n, v, weight}, upstream);
    EXPECT_TRUE(at::equal(dn, before));
    gradients.insert(gradients.begin(), gated.values.detach());
    return gradients;
  }
  void expect_close(const Shape& shape, Reader reader) const {
    const auto found = run(shape, test::kGpu, dtype_, reader),
               exact = run(shape, at::kCPU, at::kDouble, reader);
    constexpr double kTermsError = 400 * 4 * 0x1p-24;
    EXPECT_TRUE(test::is_close(found[0].cpu(), exact[0], rounding(), kTermsError));
    // n's gradient is rounded before and after the addition.
    EXPECT_TRUE(test::is_close(found[1].cpu(), exact[1], rounding(), kTermsError + 4 * rounding()));
    EXPECT_TRUE(test::is_close(found[2].cpu(), exact[2], rounding(), kTermsError));
    const double largest = exact[3].abs().max().item<double>();
    EXPECT_EQ(found[3].scalar_type(), at::kFloat);
    EXPECT_TRUE(test::is_close(found[3].cpu(), exact[3], 0, 1e-5 * largest));
  }
};

TEST_P(Gated, OutputAndGradientsMatchTheReference) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << shape.heads << " heads of " << shape.head_dim);
    expect_close(shape, Reader::operation);
  }
  expect_close(kShapes[1], Reader::none);
}

TEST_P(Gated, AGradientThatSomethingElseRefersToIsCopied) {
  expect_same(run(kShapes[1], test::kGpu, dtype_, Reader::caller),
              run(kShapes[1], test::kGpu, dtype_, Reader::operation));
}

TEST_P(Gated, GivesTheSameBitsAgain) {
  const Shape shape{.tokens = 700, .heads = 6, .head_dim = 128};
  expect_same(run(shape, test::kGpu, dtype_), run(shape, test::kGpu, dtype_));
}

TEST_P(Gated, OtherWidthsRunAsTheReference) {
  const Shape shape{.tokens = 9, .heads = 4, .head_dim = 18};
  const auto found = run(shape, test::kGpu, dtype_);
  set_fused(false);
  const auto reference = run(shape, test::kGpu, dtype_);
  set_fused(true);
  expect_same(found, reference);
}

std::string name_of(const testing::TestParamInfo<at::ScalarType>& tested) {
  return c10::toString(tested.param);
}

INSTANTIATE_TEST_SUITE_P(ScaledHeadsGpu, Scaled,
                         testing::Values(at::kFloat, at::kBFloat16, at::kHalf), name_of);
INSTANTIATE_TEST_SUITE_P(ScaledHeadsGpu, Gated,
                         testing::Values(at::kFloat, at::kBFloat16, at::kHalf), name_of);

}  // namespace
}  // namespace tg
