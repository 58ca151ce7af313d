// Plans with paired heads, a key offset, composed attention and weights of heads by token, against
// their formula in fp64.
#include <torch/csrc/autograd/autograd.h>

#include "ops/attention/attention.h"
#include "ops/attention/composed_attention.h"
#include "ops/attention/gates/xsa.h"
#include "ops/attention/paired_heads.h"
#include "ops/attention/projection/qkv_proj_norm_rope.h"
#include "ops/loss/softcap_cross_entropy.h"
#include "ops/mlp/mlp.h"
#include "ops/norm/rms_norm.h"
#include "recipes/gpt_spec.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

constexpr std::int64_t kHeads = 4;

struct Case {
  const char* name;
  bool paired, offset, composed;  // in the second of two layer calls; the first is otherwise paired
  std::int64_t padding = 1;       // Padding::channels
};

ModelConfig two_blocks() {
  auto config = test::tiny_record();
  config.num_layers = 2;
  config.num_kv_heads = kHeads;
  config.bigram_vocab_size = config.xsa_last_n = 0;
  config.ve_enabled = config.unet_skips = false;
  config.gates.smear = SmearKind::off;
  return config;
}

// A layer call's weights, from channels of the stream.
TokenHeadWeights weights_of(const LayerCall& call, const at::Tensor& x) {
  const auto part = [&](std::int64_t i) { return x.narrow(-1, i * kHeads, kHeads); };
  if (call.index == 0) return {};
  TokenHeadWeights weights{.exclusive = part(0), .gate = part(1)};
  if (call.composed_window > 0) weights.pre = part(2), weights.post = part(3);
  return weights;
}

NormedInput flow(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                 const at::Tensor&, const at::Tensor& x0) {
  auto x = x0;
  for (const auto& call : pass.calls) {
    const Layer layer(layers, call, inputs, x);
    const auto entry = layer.norm_for_attention({{.tensor = x}});
    const auto attended = layer.attention(entry.y, {}, {}, weights_of(call, x));
    const auto middle = layer.add_attention(entry.x, attended);
    x = middle.x + layer.mlp(middle.y).tensor;
  }
  return residual_norm({{.tensor = x}}, layers.head_norm(inputs)).y;
}

ModelSpec spec_of(const ModelConfig& config, const Case& tested) {
  auto spec = test::spec_of(config);
  spec.plan.flow = flow;
  spec.plan.rope_interleaved = true;
  auto& pass = spec.plan.stages.front().pass;
  pass.rope_frequencies = at::tensor({1.0, 0.25}, at::kFloat);
  auto &first = pass.calls[0], &second = pass.calls[1];
  first.window = second.window = 5;
  first.paired = !tested.paired;
  second.paired = tested.paired;
  second.key_offset = tested.offset;
  second.composed_window = tested.composed ? 3 : 0;
  return spec;
}

// The formula, of the same parameters.
class Formula {
 public:
  Formula(const ModelConfig& config, const Pass& pass, const ParameterTable& table)
      : config_(config), pass_(pass), table_(table) {}

  at::Tensor loss(const at::Tensor& inputs, const at::Tensor& targets,
                  const std::optional<Documents>& documents) const {
    const auto tokens = table_[kTokenTable];
    auto x = rms_norm(at::embedding(tokens, inputs));
    for (const auto& call : pass_.calls) {
      const auto middle = x + attention(call, x, documents);
      const auto scale = table_["blocks." + std::to_string(call.block) + ".mlp_scale"];
      const auto up = table_["mlp_up_bank"][call.block], down = table_["mlp_down_bank"][call.block];
      x = middle + scale * mlp(rms_norm(middle) * call.norm_scale, {up, {}}, {down, {}},
                               config_.mlp_negative_slope);
    }
    const auto logits = at::matmul(rms_norm(x), tokens.t()).flatten(0, 1);
    return softcap_cross_entropy(logits, targets.flatten(), {config_.objective.logit_softcap});
  }

 private:
  at::Tensor attention(const LayerCall& call, const at::Tensor& x,
                       const std::optional<Documents>& documents) const {
    const auto layers = config_.num_layers, block = call.block, tokens = x.size(1);
    const auto name = "blocks." + std::to_string(block);
    const auto qo = table_["qo_bank"], kv = table_["kv_bank"];
    const RopeOptions rope{
        .dims = config_.rope_dims, .frequencies = pass_.rope_frequencies, .interleaved = true};
    const auto table = call.paired ? make_paired_rope_table(tokens, rope, at::kDouble, at::kCPU)
                                   : make_rope_table(tokens, rope, at::kDouble, at::kCPU);
    const auto heads = qkv_proj_norm_rope(rms_norm(x) * call.norm_scale,
                                          {at::cat({qo[block], kv[block], kv[layers + block]}), {}},
                                          {.heads = kHeads,
                                           .kv_heads = kHeads,
                                           .q_gain = table_[name + ".attn.q_gain"],
                                           .key_offset = call.key_offset},
                                          table);
    const auto weights = weights_of(call, x);
    AttentionOptions options{.documents = documents, .window = call.window};
    at::Tensor y;
    if (call.paired) {
      if (documents) options.documents = paired_documents(*documents);
      y = unpaired_heads(causal_attention(paired_heads(heads.q), paired_heads(heads.k),
                                          paired_heads(heads.v), options));
    } else {
      y = causal_attention(heads.q, heads.k, heads.v, options);
    }
    if (weights.composes())
      y = y + composed_attention(heads.q, heads.k, heads.v,
                                 {.pre = weights.pre,
                                  .post = weights.post,
                                  .scale = 1 / std::sqrt(static_cast<double>(heads.q.size(3))),
                                  .window = call.composed_window,
                                  .documents = documents});
    if (weights.exclusive.defined())
      y = weighted_exclusive_attention(y, heads.v, weights.exclusive) * weights.gate.unsqueeze(-1);
    return table_[name + ".attn_scale"] * at::linear(y.flatten(2, 3), qo[layers + block]);
  }

  const ModelConfig& config_;
  const Pass& pass_;
  const ParameterTable& table_;
};

class TokenHeadWeightsPlan : public testing::TestWithParam<Case> {
 protected:
  TokenHeadWeightsPlan() : table_(make_parameters(spec_.parameters, at::kDouble, at::kCPU)) {
    std::uint64_t seed = 1;
    for (const auto& row : table_.rows())
      row.value.detach().copy_(test::normal(row.value.sizes(), seed++) * 0.4);
  }
  std::unique_ptr<Gpt> model() const {
    const Numerics numerics{.compute = at::kDouble, .padding = {.channels = GetParam().padding}};
    return std::make_unique<Gpt>(spec_.plan, table_, numerics);
  }

  const ModelConfig config_ = two_blocks();
  const ModelSpec spec_ = spec_of(config_, GetParam());
  ParameterTable table_;
  const at::Tensor tokens_ = test::integers({2, 10}, config_.vocab_size, 2),
                   inputs_ = tokens_.slice(1, 0, -1), targets_ = tokens_.slice(1, 1);
};

TEST_P(TokenHeadWeightsPlan, LossAndEveryGradientAreTheFormulas) {
  const auto some = documents_at(at::tensor({0, 2, 9, 10, 18}, at::kInt), 2, 9, 8);
  for (const auto& documents : {std::optional<Documents>(), std::optional(some)}) {
    for (const auto& row : table_.rows()) row.value.mutable_grad().reset();
    const Formula formula(config_, spec_.plan.pass(0), table_);
    const auto expected = formula.loss(inputs_, targets_, documents);
    const auto model = this->model();
    const auto loss = model->loss(inputs_, targets_, {}, documents);
    EXPECT_TRUE(test::is_close(loss, expected, 1e-13, 0));
    loss.backward();
    model->collect_gradients();
    std::vector<at::Tensor> leaves;
    for (const auto& row : table_.rows()) leaves.push_back(row.value);
    const auto right = torch::autograd::grad({expected}, leaves, {}, /*retain_graph=*/{},
                                             /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const auto& name = table_.rows()[i].name;
      ASSERT_TRUE(right[i].defined() || name.ends_with("resid_mix")) << name;
      if (right[i].defined()) {
        EXPECT_TRUE(test::is_close(leaves[i].grad(), right[i], 1e-10, 1e-13)) << name;
      }
    }
  }
}

TEST_P(TokenHeadWeightsPlan, ScoredPositionsAndDecodingGiveWhatAWholePassGives) {
  const auto model = this->model();
  if (!GetParam().offset) return test::expect_the_logits_of_a_whole_pass(*model, inputs_);
  const auto whole = model->logits(inputs_, {0, 9}, 9);
  EXPECT_TRUE(
      test::is_close(model->logits(inputs_, {4, 7}, 9), whole.narrow(1, 4, 3), 1e-12, 1e-13));
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenHeadWeightsPlan,
                         testing::Values(Case{"weights", false, false, false},
                                         Case{"paired", true, false, false},
                                         Case{"paired_padded", true, false, false, 16},
                                         Case{"offset", false, true, false},
                                         Case{"composed", false, false, true},
                                         Case{"offset_composed", false, true, true},
                                         Case{"offset_composed_padded", false, true, true, 8}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tg
