// Attention of two layers of the speedrun's record of 2026-08-01, against the values of its script.
#include <string>

#include "model/attention.h"
#include "model/fp8_weights.h"
#include "ops/fused.h"
#include "tests/ops/attention/record_89.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

constexpr std::int64_t kHeads = 6, kHeadDim = 16, kDim = kHeads * kHeadDim, kTokens = 48;
constexpr double kScale = 0.12;

class Record89Attention : public testing::TestWithParam<at::ScalarType> {
 protected:
  at::Tensor value(const std::string& name) const {
    return reference_.at("attention." + name).to(GetParam());
  }
  // Attention's output behind the projection, [T, D].
  at::Tensor run(const std::string& layer, const LayerCall& call,
                 const TokenHeadWeights& token_weights) const {
    Plan plan;
    plan.shape = {.dim = kDim,
                  .heads = kHeads,
                  .kv_heads = kHeads,
                  .head_dim = kHeadDim,
                  .qk_head_dim = kHeadDim,
                  .rope_dims = kHeadDim / 2};
    plan.rope_interleaved = true;
    plan.blocks.resize(1);
    const RopeOptions rope{
        .dims = kHeadDim / 2,
        .frequencies = at::pow(1024, -at::arange(kHeadDim / 4, at::kFloat) / (kHeadDim / 4 - 1)),
        .interleaved = true};
    const auto dtype = GetParam();
    const PassInputs pass{
        .rope = make_rope_table(kTokens, rope, dtype, at::kCPU),
        .paired_rope = make_paired_rope_table(kTokens, rope, dtype, at::kCPU),
        .q_gain = at::full({kHeads}, kScale * std::sqrt(static_cast<double>(kHeadDim)), dtype),
        .documents = documents_at(at::tensor({0, 5, 5, 23, 48, 48}, at::kInt), 1, kTokens, 25)};
    const auto matrices = value(layer + ".qkvo"), factors = value(layer + ".sa");
    BlockWeights weights;
    weights.qkv.value = matrices.narrow(0, 0, 3 * kDim) * factors[0];
    const auto out = matrices.narrow(0, 3 * kDim, kDim) * factors[1];

    const auto sizes = compute_sizes(plan.shape, {}, plan.rope_interleaved);
    const ParameterTable table;
    const Attention attention(plan, sizes, table);
    const auto x = value(layer + ".x").unsqueeze(0), values = value(layer + ".value_term");
    const auto attended = attention.forward(call, x, weights, values.unsqueeze(0), /*first_v=*/{},
                                            pass, Kernel::aten, token_weights);
    return at::linear(attended.y, out)[0];
  }
  // The script's values are in fp32.
  void expect_close(const at::Tensor& y, const std::string& layer) const {
    const auto& expected = reference_.at("attention." + layer + ".y");
    EXPECT_TRUE(test::is_close(y, expected, 0, 1e-6 * expected.abs().max().item<double>()));
  }

  const std::map<std::string, at::Tensor> reference_ = test::record_89_attention();
};

TEST_P(Record89Attention, OfALongLayerIsTheScripts) {
  const LayerCall call{.index = 0,
                       .block = 0,
                       .norm_scale = 1,
                       .window = 10,
                       .key_offset = true,
                       .composed_window = 10};
  const auto weight = [&](const std::string& name) { return value("plain." + name).unsqueeze(0); };
  const auto y = run("plain", call,
                     {.exclusive = weight("xsa"),
                      .gate = weight("head_gates"),
                      .pre = weight("dc_w1"),
                      .post = weight("dc_w2")});
  expect_close(y, "plain");
}

TEST_P(Record89Attention, OfPairedHeadsIsTheScripts) {
  const LayerCall call{.index = 0, .block = 0, .norm_scale = 1, .window = 10, .paired = true};
  const auto y = run("paired", call, {});
  expect_close(y, "paired");
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Record89Attention, testing::Values(at::kFloat, at::kDouble),
                         [](const auto& tested) {
                           return std::string(c10::toString(tested.param));
                         });

}  // namespace
}  // namespace tg
