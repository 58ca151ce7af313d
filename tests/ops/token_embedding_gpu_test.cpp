// The kernels of ops/embedding/token_embedding.h against the reference in fp64 on the CPU.
#include <torch/csrc/autograd/autograd.h>

#include "ops/embedding/token_embedding.h"
#include "ops/fused.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

class TokenEmbeddingGpu : public test::OnGpu<::testing::TestWithParam<at::ScalarType>> {};

struct Inputs {
  at::Tensor table, ids, bigram, scale, gate, dy;

  Inputs(std::int64_t batch, std::int64_t length, std::int64_t width, bool with_bigram,
         bool with_gate, at::ScalarType dtype)
      : table(test::normal({50, width}, 1, dtype)),
        ids(test::integers({batch, length}, 50, 2)),
        dy(test::normal({batch, length, width}, 5, dtype)) {
    if (with_bigram) {
      bigram = test::normal({batch, length, width}, 3, dtype);
      scale = at::full({}, 0.4f);
    }
    if (with_gate) gate = test::normal({width}, 4, at::kFloat);
  }

  // y, then the gradients of those of table, bigram, scale and gate that are defined. Computed in
  // `dtype`; scale and gate are fp32, or fp64 with it.
  std::vector<at::Tensor> run(at::Device device, at::ScalarType dtype) const {
    std::vector<at::Tensor> leaves;
    const auto leaf = [&](const at::Tensor& x, at::ScalarType to) {
      if (!x.defined()) return x;
      leaves.push_back(x.to(device, to, /*non_blocking=*/false, /*copy=*/true));
      return leaves.back().set_requires_grad(true);
    };
    const auto parameter = dtype == at::kDouble ? at::kDouble : at::kFloat;
    TokenEmbedding of;
    of.table_vd = leaf(table, dtype);
    of.ids_bt = ids.to(device);
    of.bigram_btd = leaf(bigram, dtype);
    of.bigram_scale = leaf(scale, parameter);
    of.smear_gate_d = leaf(gate, parameter);
    const auto y = token_embedding(of);
    auto found = torch::autograd::grad({y}, leaves, {dy.to(device, dtype)});
    found.insert(found.begin(), y.detach());
    return found;
  }
};

struct Shape {
  std::int64_t batch, length, width;
  bool bigram, gate;
};

TEST_P(TokenEmbeddingGpu, OutputAndGradientsMatchTheReference) {
  const auto dtype = GetParam();
  const double rounding = dtype == at::kFloat ? 0x1p-20 : dtype == at::kHalf ? 0x1p-11 : 0x1p-8;
  // The recipes' widths, sequences of whole runs and not, idle lanes, one position, the largest
  // width, no smear, no bigrams.
  const Shape shapes[] = {{3, 160, 512, true, true}, {2, 77, 768, false, false},
                          {2, 16, 768, true, true},  {5, 33, 16, true, true},
                          {1, 1, 512, true, true},   {2, 40, 1024, false, true},
                          {2, 19, 1000, true, false}};
  for (const auto& [batch, length, width, bigram, gate] : shapes) {
    const Inputs inputs(batch, length, width, bigram, gate, dtype);
    const auto found = inputs.run(at::kCUDA, dtype), exact = inputs.run(at::kCPU, at::kDouble);
    ASSERT_EQ(found.size(), exact.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      // The table's gradient sums rounded rows, some `batch·length/50` of size one; sums over all
      // tokens, the scale's and the gate's, are of fp32 terms.
      const bool parameter = found[i].dim() < 2;
      const auto terms = static_cast<double>(i == 1 ? batch * length / 10 + 5 : 4);
      const double error = parameter ? 2e-6 * std::sqrt(double(exact[0].numel())) : 0.5 * rounding;
      EXPECT_TRUE(test::is_close(found[i].cpu(), exact[i], parameter ? 2e-5 : rounding,
                                 parameter ? error : terms * error))
          << batch << " x " << length << " x " << width << ", tensor " << i;
    }
  }
}

TEST_P(TokenEmbeddingGpu, UnsupportedWidthsRunAsTheReference) {
  const auto dtype = GetParam();
  const double rounding = dtype == at::kFloat ? 0x1p-20 : dtype == at::kHalf ? 0x1p-8 : 0x1p-5;
  for (const std::int64_t width : {30, 2048}) {
    const Inputs inputs(2, 9, width, true, true, dtype);
    const auto found = inputs.run(at::kCUDA, dtype), exact = inputs.run(at::kCPU, at::kDouble);
    EXPECT_TRUE(test::is_close(found[0].cpu(), exact[0], rounding, rounding)) << width;
  }
}

TEST_P(TokenEmbeddingGpu, OnlyWhatIsNeededIsDifferentiated) {
  const Inputs inputs(2, 50, 512, true, true, GetParam());
  const auto all = inputs.run(at::kCUDA, GetParam());
  TokenEmbedding of{inputs.table.cuda(), inputs.ids.cuda(), inputs.bigram.cuda(),
                    inputs.scale.cuda(), inputs.gate.cuda()};
  of.smear_gate_d.set_requires_grad(true);
  const auto gate =
      torch::autograd::grad({token_embedding(of)}, {of.smear_gate_d}, {inputs.dy.cuda()})[0];
  EXPECT_TRUE(at::equal(gate, all[4]));
  of.smear_gate_d.set_requires_grad(false);
  of.bigram_btd.set_requires_grad(true);
  const auto bigram =
      torch::autograd::grad({token_embedding(of)}, {of.bigram_btd}, {inputs.dy.cuda()})[0];
  EXPECT_TRUE(at::equal(bigram, all[2]));
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(token_embedding(of), all[0]));
}

TEST_P(TokenEmbeddingGpu, TwiceTheSameBits) {
  const Inputs inputs(4, 1000, 512, true, true, GetParam());
  const auto once = inputs.run(at::kCUDA, GetParam()), twice = inputs.run(at::kCUDA, GetParam());
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(at::equal(once[i], twice[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Dtypes, TokenEmbeddingGpu,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& tested) {
                           return std::string(c10::toString(tested.param));
                         });

}  // namespace
}  // namespace tg
