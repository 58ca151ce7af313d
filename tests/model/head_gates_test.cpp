// Plans with the gates on attention's heads that plan.h has, against their formula in fp64.
#include "tests/model/head_gates.h"

#include <torch/csrc/autograd/autograd.h>

#include "config/derived.h"
#include "ops/attention/attention.h"
#include "ops/attention/gates/xsa.h"
#include "ops/attention/projection/qkv_proj_norm_rope.h"
#include "ops/loss/softcap_cross_entropy.h"
#include "ops/mlp/mlp.h"
#include "ops/norm/rms_norm.h"
#include "recipes/gpt_spec.h"

namespace tg {
namespace {

struct Case {
  const char* name;
  HeadGate gate;  // but for its parameters
  bool bias = false;
  std::int64_t padding = 1;  // Padding::channels
};

// The second block's attention is exclusive, the first one's is not. Heads of 6, of which 4
// channels are rotated: where they are padded, neither half nor the rest is where it was.
ModelConfig two_blocks() {
  auto config = test::tiny_record();
  config.num_layers = 2;
  config.bigram_vocab_size = 0;
  config.xsa_last_n = 1;
  config.ve_enabled = config.unet_skips = false;
  config.gates.smear = SmearKind::off;
  return config;
}

// The formula, of the same parameters.
class Formula {
 public:
  Formula(const ModelConfig& config, const Case& gate_case, const ParameterTable& table)
      : config_(config), case_(gate_case), table_(table) {}

  at::Tensor loss(const at::Tensor& inputs, const at::Tensor& targets) const {
    const auto tokens = table_[kTokenTable];
    const auto x0 = rms_norm(at::embedding(tokens, inputs));
    auto x = x0;
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      const auto scale = 1 / std::sqrt(static_cast<double>(i + 1));
      const auto mix = of_block(i, "resid_mix");
      const auto h = mix[0] * x + mix[1] * x0;
      const auto middle = h + attention(i, rms_norm(h) * scale);
      x = middle + feed_forward(i, rms_norm(middle) * scale);
    }
    const auto logits = at::matmul(rms_norm(x), tokens.t()).flatten(0, 1);
    return softcap_cross_entropy(logits, targets.flatten(), {config_.objective.logit_softcap});
  }

 private:
  at::Tensor attention(std::int64_t block, const at::Tensor& n) const {
    const auto layers = config_.num_layers;
    const auto qo = table_["qo_bank"], kv = table_["kv_bank"];
    const auto rope = make_rope_table(
        n.size(1), {.dims = config_.rope_dims, .base = config_.rope_base}, at::kDouble, at::kCPU);
    const auto heads =
        qkv_proj_norm_rope(n, {at::cat({qo[block], kv[block], kv[layers + block]}), {}},
                           {.heads = config_.num_heads,
                            .kv_heads = config_.num_kv_heads,
                            .q_gain = of_block(block, "attn.q_gain")},
                           rope);
    auto y = causal_attention(heads.q, heads.k, heads.v);
    if (block + config_.xsa_last_n >= layers) y = exclusive_attention(y, heads.v);
    const auto& gate = case_.gate;
    const auto all = gate.input == HeadGate::Input::normed ? n : at::linear(n, qo[block]);
    auto z =
        at::linear(gate.window == 0 ? all : all.slice(-1, 0, gate.window), of_block(block, "gate"));
    if (case_.bias) z = z + of_block(block, "gate.bias");
    y = y * (gate.range / (1 + at::exp(-gate.scale * z))).unsqueeze(-1);
    return of_block(block, "attn_scale") * at::linear(y.flatten(2, 3), qo[layers + block]);
  }
  at::Tensor feed_forward(std::int64_t block, const at::Tensor& n) const {
    return of_block(block, "mlp_scale") * mlp(n, {table_["mlp_up_bank"][block], {}},
                                              {table_["mlp_down_bank"][block], {}},
                                              config_.mlp_negative_slope);
  }
  at::Tensor of_block(std::int64_t block, const std::string& name) const {
    return table_["blocks." + std::to_string(block) + "." + name];
  }

  const ModelConfig& config_;
  const Case& case_;
  const ParameterTable& table_;
};

class HeadGates : public testing::TestWithParam<Case> {
 protected:
  HeadGates()
      : spec_(test::gated(config_, GetParam().gate, GetParam().bias)),
        table_(make_parameters(spec_.parameters, at::kDouble, at::kCPU)) {
    std::uint64_t seed = 1;
    for (const auto& row : table_.rows())
      row.value.detach().copy_(test::normal(row.value.sizes(), seed++) * 0.4);
  }
  std::unique_ptr<Gpt> model(ActivationRecompute recompute = ActivationRecompute::off) const {
    return std::make_unique<Gpt>(spec_.plan, table_,
                                 Numerics{.compute = at::kDouble,
                                          .padding = {.channels = GetParam().padding},
                                          .recompute = recompute});
  }
  std::vector<at::Tensor> gradients(ActivationRecompute recompute) const {
    for (const auto& row : table_.rows()) row.value.mutable_grad().reset();
    const auto model = this->model(recompute);
    model->loss(inputs_, targets_, {}).backward();
    model->collect_gradients();
    std::vector<at::Tensor> found;
    for (const auto& row : table_.rows()) found.push_back(row.value.grad().clone());
    return found;
  }

  const ModelConfig config_ = two_blocks();
  ModelSpec spec_;
  ParameterTable table_;
  const at::Tensor tokens_ = test::integers({2, 10}, config_.vocab_size, 2),
                   inputs_ = tokens_.slice(1, 0, -1), targets_ = tokens_.slice(1, 1);
};

TEST_P(HeadGates, LossAndEveryGradientAreTheFormulas) {
  const auto expected = Formula(config_, GetParam(), table_).loss(inputs_, targets_);
  EXPECT_TRUE(test::is_close(model()->loss(inputs_, targets_, {}), expected, 1e-13, 0));
  std::vector<at::Tensor> leaves;
  for (const auto& row : table_.rows()) leaves.push_back(row.value);
  const auto right = torch::autograd::grad({expected}, leaves);
  const auto found = gradients(ActivationRecompute::off);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    EXPECT_TRUE(test::is_close(found[i], right[i], 1e-10, 1e-13)) << table_.rows()[i].name;
}

TEST_P(HeadGates, RecomputationGivesTheSameBits) {
  const auto kept = gradients(ActivationRecompute::off);
  for (const auto mode : {ActivationRecompute::light, ActivationRecompute::block}) {
    const auto recomputed = gradients(mode);
    for (std::size_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(test::is_same(kept[i], recomputed[i])) << table_.rows()[i].name;
  }
}

TEST_P(HeadGates, ScoredPositionsAndDecodingGiveWhatAWholePassGives) {
  test::expect_the_logits_of_a_whole_pass(*model(), inputs_);
}

// A window of the queries ends in the second head.
using Input = HeadGate::Input;
INSTANTIATE_TEST_SUITE_P(
    Kinds, HeadGates,
    testing::Values(
        Case{"sparse", {.window = 5, .scale = 0.5}},
        Case{"sparse_padded", {.window = 5, .scale = 0.5}, false, 16}, Case{"all_channels", {}},
        Case{"all_channels_padded", {}, false, 16}, Case{"bias", {.scale = 0.5, .range = 2}, true},
        Case{"to_twice", {.window = 12, .range = 2}},
        Case{"queries", {.input = Input::queries, .window = 8, .range = 2}},
        Case{"queries_padded", {.input = Input::queries, .window = 8, .range = 2}, false, 8},
        Case{"one_query", {.input = Input::queries, .window = 1}},
        Case{"all_queries_padded", {.input = Input::queries}, false, 8}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tg
