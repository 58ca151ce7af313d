// Tests the kernels of ops/embedding/token_embedding.h against the reference in fp64 on the CPU.
#include <torch/csrc/autograd/autograd.h>

#include "ops/attention/documents.h"
#include "ops/embedding/token_embedding.h"
#include "ops/fused.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

class TokenEmbeddingGpu : public test::OnGpu<::testing::TestWithParam<at::ScalarType>> {};

struct Shape {
  std::int64_t batch, length, width;
  bool bigram = true, gate = true;  // whether these optional inputs are present
  std::int64_t channels = 0;        // counted by the mean; 0: all
  std::int64_t window = 0;          // of the gated smear, which replaces `gate`; 0: none
  bool documents = false;           // `gate` does not read across documents
};

// Undefined without a gradient.
struct Results {
  at::Tensor y, d_table, d_bigram, d_scale, d_gate, d_weight, d_lambda;
};

// Frequent enough that documents begin at most places of a run, also directly after each other.
constexpr std::int64_t kBos = 7;

struct Inputs {
  at::Tensor table, ids, bigram, scale, gate, weight, lambda, ends, dy;
  std::int64_t channels;

  Inputs(const Shape& shape, at::ScalarType dtype)
      : table(test::normal({50, shape.width}, 1, dtype)),
        ids(test::integers({shape.batch, shape.length}, 50, 2)),
        dy(test::normal({shape.batch, shape.length, shape.width}, 5, dtype)),
        channels(shape.channels) {
    const auto [batch, length, width, with_bigram, with_gate, counted, window, documents] = shape;
    if (with_bigram) {
      bigram = test::normal({batch, length, width}, 3, dtype);
      scale = at::full({}, 0.4f);
    }
    if (window > 0) {
      ids.masked_fill_(test::integers(ids.sizes(), 4, 6) == 0, kBos);
      weight = test::normal({1, window}, 7, at::kFloat);
      lambda = at::full({1}, 0.6f);
    } else if (with_gate) {
      gate = test::normal({width}, 4, at::kFloat);
    }
    if (documents) ends = documents_in(test::integers(ids.sizes(), 4, 8) == 0, at::kCPU).ends;
  }

  // Computes in `dtype`; scale and gate are fp32, or fp64 if `dtype` is.
  Results run(at::Device device, at::ScalarType dtype) const {
    const auto leaf = [&](const at::Tensor& x, at::ScalarType to) {
      if (!x.defined()) return x;
      return x.to(device, to, /*non_blocking=*/false, /*copy=*/true).set_requires_grad(true);
    };
    const auto parameter = dtype == at::kDouble ? at::kDouble : at::kFloat;
    TokenEmbedding embedding;
    embedding.table_vd = leaf(table, dtype);
    embedding.ids_bt = ids.to(device);
    embedding.bigram_btd = leaf(bigram, dtype);
    embedding.bigram_scale = leaf(scale, parameter);
    embedding.smear_gate_d = leaf(gate, parameter);
    embedding.channels = channels;
    embedding.gated_smear = {leaf(weight, parameter), leaf(lambda, parameter), kBos};
    if (ends.defined()) embedding.document_ends_bt = ends.to(device);
    const auto y = token_embedding(embedding);
    y.backward(dy.to(device, dtype));
    const auto gradient_of = [](const at::Tensor& x) { return x.defined() ? x.grad() : x; };
    return {.y = y.detach(),
            .d_table = gradient_of(embedding.table_vd),
            .d_bigram = gradient_of(embedding.bigram_btd),
            .d_scale = gradient_of(embedding.bigram_scale),
            .d_gate = gradient_of(embedding.smear_gate_d),
            .d_weight = gradient_of(embedding.gated_smear.weight_1w),
            .d_lambda = gradient_of(embedding.gated_smear.lambda_1)};
  }
};

TEST_P(TokenEmbeddingGpu, OutputAndGradientsMatchTheReference) {
  const auto dtype = GetParam();
  const double rounding = dtype == at::kFloat ? 0x1p-20 : dtype == at::kHalf ? 0x1p-11 : 0x1p-8;
  const Shape shapes[] = {
      // The recipes' widths; sequences that are not whole runs.
      {.batch = 3, .length = 160, .width = 512},
      {.batch = 2, .length = 77, .width = 768, .bigram = false, .gate = false},
      // A sequence of one whole run.
      {.batch = 2, .length = 16, .width = 768},
      // Idle lanes.
      {.batch = 5, .length = 33, .width = 16},
      // One position.
      {.batch = 1, .length = 1, .width = 512},
      // The largest width; no bigrams.
      {.batch = 2, .length = 40, .width = 1024, .bigram = false},
      // A width that is not a multiple of a warp's; no smear.
      {.batch = 2, .length = 19, .width = 1000, .gate = false},
      // A padded width.
      {.batch = 2, .length = 19, .width = 776, .channels = 770},
      // Documents that begin at most places of a run; without bigrams, a padded width, one
      // position, idle lanes.
      {.batch = 3, .length = 160, .width = 512, .documents = true},
      {.batch = 2, .length = 77, .width = 768, .bigram = false, .documents = true},
      {.batch = 2, .length = 19, .width = 776, .channels = 770, .documents = true},
      {.batch = 2, .length = 40, .width = 1024, .documents = true},
      {.batch = 4, .length = 1, .width = 512, .documents = true},
      {.batch = 5, .length = 33, .width = 16, .documents = true},
      // The gated smear: whole runs and their ends, one position, idle lanes, no bigrams, a padded
      // width; windows of one lane, of several, and the largest.
      {.batch = 3, .length = 160, .width = 512, .bigram = false, .window = 12},
      {.batch = 2, .length = 77, .width = 768, .window = 1},
      {.batch = 4, .length = 1, .width = 512, .window = 12},
      {.batch = 5, .length = 33, .width = 16, .window = 16},
      {.batch = 2, .length = 40, .width = 1024, .window = 128},
      {.batch = 2, .length = 19, .width = 776, .bigram = false, .channels = 770, .window = 13},
  };
  for (const auto& shape : shapes) {
    const Inputs inputs(shape, dtype);
    const auto found = inputs.run(test::kGpu, dtype), exact = inputs.run(at::kCPU, at::kDouble);
    SCOPED_TRACE(testing::Message()
                 << shape.batch << " x " << shape.length << " x " << shape.width);
    const auto expect_close = [&](const at::Tensor& of_gpu, const at::Tensor& right, double rtol,
                                  double atol, const char* name) {
      ASSERT_EQ(of_gpu.defined(), right.defined()) << name;
      if (!right.defined()) return;
      EXPECT_TRUE(test::is_close(of_gpu.cpu(), right, rtol, atol)) << name;
    };
    // The table's gradient is a sum of about `batch·length/50` rounded rows of size one, more for
    // BOS.
    const auto terms =
        static_cast<double>(shape.batch * shape.length / (shape.window > 0 ? 3 : 10) + 5);
    expect_close(found.y, exact.y, rounding, 4 * 0.5 * rounding, "y");
    expect_close(found.d_table, exact.d_table, rounding, terms * 0.5 * rounding, "d_table");
    expect_close(found.d_bigram, exact.d_bigram, rounding, 4 * 0.5 * rounding, "d_bigram");
    // Sums over all tokens of fp32 terms.
    const double error = 2e-6 * std::sqrt(double(exact.y.numel()));
    expect_close(found.d_scale, exact.d_scale, 2e-5, error, "d_scale");
    expect_close(found.d_gate, exact.d_gate, 2e-5, error, "d_gate");
    expect_close(found.d_weight, exact.d_weight, 2e-5, error, "d_weight");
    expect_close(found.d_lambda, exact.d_lambda, 2e-5, error, "d_lambda");
  }
}

TEST_P(TokenEmbeddingGpu, UnsupportedWidthsRunAsTheReference) {
  const auto dtype = GetParam();
  const double rounding = dtype == at::kFloat ? 0x1p-20 : dtype == at::kHalf ? 0x1p-8 : 0x1p-5;
  for (const Shape& shape : {Shape{.batch = 2, .length = 9, .width = 30},
                             {.batch = 2, .length = 9, .width = 2048},
                             {.batch = 2, .length = 9, .width = 512, .window = 129}}) {
    const Inputs inputs(shape, dtype);
    const auto found = inputs.run(test::kGpu, dtype), exact = inputs.run(at::kCPU, at::kDouble);
    EXPECT_TRUE(test::is_close(found.y.cpu(), exact.y, rounding, rounding)) << shape.width;
  }
}

TEST_P(TokenEmbeddingGpu, OnlyRequestedGradientsAreComputed) {
  const Inputs inputs({.batch = 2, .length = 50, .width = 512}, GetParam());
  const auto all = inputs.run(test::kGpu, GetParam());
  TokenEmbedding embedding{.table_vd = inputs.table.to(test::kGpu),
                           .ids_bt = inputs.ids.to(test::kGpu),
                           .bigram_btd = inputs.bigram.to(test::kGpu),
                           .bigram_scale = inputs.scale.to(test::kGpu),
                           .smear_gate_d = inputs.gate.to(test::kGpu)};
  embedding.smear_gate_d.set_requires_grad(true);
  const auto gate = torch::autograd::grad({token_embedding(embedding)}, {embedding.smear_gate_d},
                                          {inputs.dy.to(test::kGpu)})[0];
  EXPECT_TRUE(at::equal(gate, all.d_gate));
  embedding.smear_gate_d.set_requires_grad(false);
  embedding.bigram_btd.set_requires_grad(true);
  const auto bigram = torch::autograd::grad({token_embedding(embedding)}, {embedding.bigram_btd},
                                            {inputs.dy.to(test::kGpu)})[0];
  EXPECT_TRUE(at::equal(bigram, all.d_bigram));
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(token_embedding(embedding), all.y));
}

TEST_P(TokenEmbeddingGpu, OnlyRequestedGradientsOfAGatedSmearAreComputed) {
  const Inputs inputs({.batch = 2, .length = 50, .width = 512, .window = 12}, GetParam());
  const auto all = inputs.run(test::kGpu, GetParam());
  TokenEmbedding embedding{.table_vd = inputs.table.to(test::kGpu),
                           .ids_bt = inputs.ids.to(test::kGpu),
                           .bigram_btd = inputs.bigram.to(test::kGpu),
                           .bigram_scale = inputs.scale.to(test::kGpu),
                           .smear_gate_d = {}};
  embedding.gated_smear = {inputs.weight.to(test::kGpu), inputs.lambda.to(test::kGpu), kBos};
  for (const auto& [input, expected] : {std::pair{&embedding.gated_smear.weight_1w, all.d_weight},
                                        {&embedding.gated_smear.lambda_1, all.d_lambda},
                                        {&embedding.bigram_scale, all.d_scale}}) {
    input->set_requires_grad(true);
    const auto found = torch::autograd::grad({token_embedding(embedding)}, {*input},
                                             {inputs.dy.to(test::kGpu)})[0];
    EXPECT_TRUE(at::equal(found, expected));
    input->set_requires_grad(false);
  }
}

TEST_P(TokenEmbeddingGpu, TheTablesGradientAccumulatesWhereAskedTo) {
  for (const std::int64_t width : {512, 2048}) {  // the kernel, then the reference
    const Inputs inputs({.batch = 3, .length = 100, .width = width}, GetParam());
    const auto dy = inputs.dy.to(test::kGpu);
    TokenEmbedding embedding{.table_vd = inputs.table.to(test::kGpu).set_requires_grad(true),
                             .ids_bt = inputs.ids.to(test::kGpu),
                             .bigram_btd = inputs.bigram.to(test::kGpu),
                             .bigram_scale = inputs.scale.to(test::kGpu),
                             .smear_gate_d = inputs.gate.to(test::kGpu)};
    token_embedding(embedding).backward(dy);
    const auto sum = at::ones({60, width}, test::kGpu);
    auto expected = sum.clone();
    // The leaf's gradient is rounded to its dtype.
    expected.slice(0, 0, 50).add_(embedding.table_vd.grad(), 2);
    embedding.table_vd = embedding.table_vd.detach().set_requires_grad(true);
    embedding.table_gradient_vd = sum;
    for (int i = 0; i < 2; ++i) token_embedding(embedding).backward(dy);
    EXPECT_FALSE(embedding.table_vd.grad().defined());
    const double rounding = GetParam() == at::kFloat  ? 0x1p-20
                            : GetParam() == at::kHalf ? 0x1p-10
                                                      : 0x1p-7;
    EXPECT_TRUE(test::is_close(sum.cpu(), expected.cpu(), rounding, rounding)) << width;
  }
}

// The beginning of a document behaves like the beginning of a row, whatever precedes it, for both
// kinds of smear.
TEST_P(TokenEmbeddingGpu, ADocumentIsWhatItIsAlone) {
  for (const std::int64_t window : {0, 12}) {
    Inputs inputs({.batch = 1, .length = 48, .width = 512, .bigram = false, .window = window},
                  GetParam());
    inputs.ids.fill_(3);
    for (const std::int64_t begin : {15, 16, 17, 33}) inputs.ids.select(1, begin).fill_(kBos);
    if (window == 0) inputs.ends = documents_in(inputs.ids == kBos, at::kCPU).ends;
    const auto whole = inputs.run(test::kGpu, GetParam());
    at::Tensor d_table = at::zeros_like(whole.d_table);
    for (const auto& [begin, end] : {std::pair{0, 15}, {15, 16}, {16, 17}, {17, 33}, {33, 48}}) {
      auto part = inputs;
      part.ids = inputs.ids.slice(1, begin, end);
      part.dy = inputs.dy.slice(1, begin, end);
      part.ends = at::Tensor();
      const auto alone = part.run(test::kGpu, GetParam());
      EXPECT_TRUE(at::equal(alone.y, whole.y.slice(1, begin, end))) << window << ", " << begin;
      d_table += alone.d_table;
    }
    // Sums of about 45 rounded rows.
    const double rounding = GetParam() == at::kFloat  ? 0x1p-18
                            : GetParam() == at::kHalf ? 0x1p-7
                                                      : 0x1p-4;
    EXPECT_TRUE(test::is_close(d_table, whole.d_table, rounding, rounding)) << window;
  }
}

TEST_P(TokenEmbeddingGpu, GivesTheSameBitsAgain) {
  for (const std::int64_t window : {0, 12}) {
    const Inputs inputs({.batch = 4, .length = 1000, .width = 512, .window = window}, GetParam());
    const auto once = inputs.run(test::kGpu, GetParam()),
               twice = inputs.run(test::kGpu, GetParam());
    EXPECT_TRUE(at::equal(once.y, twice.y));
    EXPECT_TRUE(at::equal(once.d_table, twice.d_table));
    EXPECT_TRUE(at::equal(once.d_bigram, twice.d_bigram));
    EXPECT_TRUE(at::equal(once.d_scale, twice.d_scale));
    if (window == 0) {
      EXPECT_TRUE(at::equal(once.d_gate, twice.d_gate));
    } else {
      EXPECT_TRUE(at::equal(once.d_weight, twice.d_weight));
      EXPECT_TRUE(at::equal(once.d_lambda, twice.d_lambda));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, TokenEmbeddingGpu,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& tested) {
                           return std::string(c10::toString(tested.param));
                         });

}  // namespace
}  // namespace tg
