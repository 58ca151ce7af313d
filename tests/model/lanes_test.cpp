// A plan that no recipe makes: blocks that are visited several times, skips of every kind, without
// gates and with, and two lanes. Against its formula (model/plan.h) in fp64.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "model/recipe.h"
#include "ops/attention/attention.h"
#include "ops/attention/qkv_proj_norm_rope.h"
#include "ops/loss/softcap_cross_entropy.h"
#include "ops/mlp/mlp.h"
#include "ops/norm/rms_norm.h"
#include "tests/model/fixtures.h"

namespace tg {
namespace {

constexpr std::int64_t kBlocks = 3, kDim = 24, kHeads = 4, kKvHeads = 2, kHeadDim = 6;

ModelConfig three_blocks() {
  auto config = test::tiny_record();
  config.num_layers = kBlocks;
  config.bigram_vocab_size = config.xsa_last_n = 0;
  config.smear_gate = config.ve_enabled = config.unet_skips = false;
  return config;
}

struct Lanes {
  ParameterId residual, post, skip_weights, skip_gates;  // without gates none
};

// Two visits whose inputs are kept, then in one lane a visit that its own input is the skip of, and
// one with a skip; in two lanes the same, and between them one without a skip.
Recipe two_lanes(const ModelConfig& config, FinalLane head, bool gated, Lanes& lanes) {
  auto recipe = make_recipe(config);
  const auto declare = [&](const char* name, const std::vector<std::int64_t>& shape) {
    recipe.parameters.push_back({.name = name, .shape = shape, .group = ParamGroup::scalar});
    return ParameterId{std::ssize(recipe.parameters) - 1};
  };
  lanes = {declare("residual", {3, 2}),
           declare("post", {3, 2, 2}),
           declare("skip_weights", {4, kDim}),
           {}};
  if (gated) lanes.skip_gates = declare("skip_gates", {4, kDim});
  const auto skip = [&](std::int64_t row, std::optional<std::int64_t> slot = {}) {
    return Visit::Skip{
        .weights = lanes.skip_weights, .gates = lanes.skip_gates, .row = row, .slot = slot};
  };
  const auto in_lanes = [&](std::int64_t row) {
    return LaneMix{.residual = lanes.residual, .post = lanes.post, .row = row};
  };
  auto& [embedding, values, matrices, blocks, stages, head_plan] = recipe.plan;
  auto& [visits, slots] = stages.front();
  visits = {
      {.index = 0, .block = 0, .norm_scale = 1},
      {.index = 1, .block = 1, .norm_scale = 0.7, .keep_input = 0},
      {.index = 2, .block = 0, .norm_scale = 0.9, .keep_input = 1},
      {.index = 3, .block = 2, .norm_scale = 0.8, .skip = skip(0)},
      {.index = 4, .block = 1, .norm_scale = 0.7, .skip = skip(1, 1)},
      {.index = 5, .block = 1, .norm_scale = 0.6, .skip = skip(2), .lanes = in_lanes(0)},
      {.index = 6, .block = 0, .norm_scale = 0.4, .lanes = in_lanes(1)},
      {.index = 7,
       .block = 2,
       .norm_scale = 0.5,
       .skip = skip(3, 0),
       .lanes = in_lanes(2),
       .last = true},
  };
  slots = 2;
  head_plan.lane = head;
  return recipe;
}

// The formula, of the same parameters.
class Formula {
 public:
  Formula(const ModelConfig& config, const ParameterTable& table)
      : config_(config), table_(table) {}

  at::Tensor loss(const Lanes& lanes, FinalLane head, const at::Tensor& inputs,
                  const at::Tensor& targets) const {
    const auto tokens = table_[kTokenTable];
    const auto x0 = rms_norm(at::embedding(tokens, inputs));
    const auto rope =
        make_rope_table(inputs.size(1), {.dims = config_.rope_dims, .base = config_.rope_base},
                        at::kDouble, at::kCPU);
    const auto whole = [&](std::int64_t block, double scale, const at::Tensor& x) {
      const auto h = mixed(block, x, x0);
      const auto middle = h + attention(block, rms_norm(h) * scale, rope);
      return middle + feed_forward(block, rms_norm(middle) * scale);
    };
    const auto skipped = [&](std::int64_t row, const at::Tensor& x, const at::Tensor& skip) {
      const auto weight = table_[lanes.skip_weights][row];
      if (!lanes.skip_gates) return x + weight * skip;
      const auto share = at::sigmoid(table_[lanes.skip_gates][row]);
      return share * x + (1 - share) * weight * skip;
    };
    const auto first = whole(0, 1, x0);
    const auto second = whole(1, 0.7, first);
    const auto third = whole(0, 0.9, second);
    const auto fourth = whole(2, 0.8, skipped(0, third, third));
    auto lane0 = whole(1, 0.7, skipped(1, fourth, second)), lane1 = lane0;
    const auto two = [&](std::int64_t block, double scale, std::int64_t row) {
      const auto a = attention(block, rms_norm(mixed(block, lane0, x0)) * scale, rope);
      const auto b = feed_forward(block, rms_norm(lane1) * scale);
      const auto residual = table_[lanes.residual][row], post = table_[lanes.post][row];
      lane0 = residual[0] * lane0 + post[0][0] * a + post[1][0] * b;
      lane1 = residual[1] * lane1 + post[0][1] * a + post[1][1] * b;
    };
    lane0 = skipped(2, lane0, lane0);
    two(1, 0.6, 0);
    two(0, 0.4, 1);
    lane0 = skipped(3, lane0, first);
    two(2, 0.5, 2);
    const auto out = head == FinalLane::first    ? lane0
                     : head == FinalLane::second ? lane1
                                                 : (lane0 + lane1) / 2;
    const auto logits = at::matmul(rms_norm(out), tokens.t()).flatten(0, 1);
    return softcap_cross_entropy(logits, targets.flatten(), config_.logit_softcap);
  }

 private:
  at::Tensor mixed(std::int64_t block, const at::Tensor& x, const at::Tensor& x0) const {
    const auto mix = of_block(block, "resid_mix");
    return mix[0] * x + mix[1] * x0;
  }
  at::Tensor attention(std::int64_t block, const at::Tensor& n, const RopeTable& rope) const {
    const auto qo = table_["qo_bank"], kv = table_["kv_bank"];
    const auto heads = qkv_proj_norm_rope(
        n, {at::cat({qo[block], kv[block], kv[kBlocks + block]}), {}},
        {.heads = kHeads, .kv_heads = kKvHeads, .q_gain = of_block(block, "attn.q_gain")}, rope);
    const auto y = causal_attention(heads.q, heads.k, heads.v).flatten(2, 3);
    return of_block(block, "attn_scale") * at::linear(y, qo[kBlocks + block]);
  }
  at::Tensor feed_forward(std::int64_t block, const at::Tensor& n) const {
    return of_block(block, "mlp_scale") * mlp(n, {table_["mlp_up_bank"][block], {}},
                                              {table_["mlp_down_bank"][block], {}},
                                              config_.mlp_negative_slope);
  }
  at::Tensor of_block(std::int64_t block, const char* name) const {
    return table_["blocks." + std::to_string(block) + "." + name];
  }

  const ModelConfig& config_;
  const ParameterTable& table_;
};

struct Case {
  const char* name;
  FinalLane head;
  bool gated;
};

class TwoLanes : public testing::TestWithParam<Case> {
 protected:
  TwoLanes()
      : recipe_(two_lanes(config_, GetParam().head, GetParam().gated, lanes_)),
        table_(make_parameters(recipe_.parameters, at::kDouble, at::kCPU)) {
    std::uint64_t seed = 1;
    for (const auto& row : table_.rows())
      row.value.detach().copy_(test::normal(row.value.sizes(), seed++) * 0.4);
  }
  std::unique_ptr<Gpt> model(ActivationRecompute recompute = ActivationRecompute::off) const {
    return std::make_unique<Gpt>(config_, recipe_.plan, table_,
                                 Numerics{.compute = at::kDouble, .recompute = recompute});
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

  const ModelConfig config_ = three_blocks();
  Lanes lanes_;
  Recipe recipe_;
  ParameterTable table_;
  const at::Tensor tokens_ = test::integers({2, 10}, config_.vocab_size, 2),
                   inputs_ = tokens_.slice(1, 0, -1), targets_ = tokens_.slice(1, 1);
};

TEST_P(TwoLanes, LossAndEveryGradientAreTheFormulas) {
  const auto expected = Formula(config_, table_).loss(lanes_, GetParam().head, inputs_, targets_);
  EXPECT_TRUE(test::is_close(model()->loss(inputs_, targets_, {}), expected, 1e-13, 0));
  std::vector<at::Tensor> leaves;
  for (const auto& row : table_.rows()) leaves.push_back(row.value);
  const auto right = torch::autograd::grad({expected}, leaves, {}, /*retain_graph=*/{},
                                           /*create_graph=*/false, /*allow_unused=*/true);
  const auto found = gradients(ActivationRecompute::off);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto& name = table_.rows()[i].name;
    const auto exact = right[i].defined() ? right[i] : at::zeros_like(leaves[i]);
    EXPECT_TRUE(test::is_close(found[i], exact, 1e-10, 1e-13)) << name;
    EXPECT_TRUE(exact.abs().sum().item<double>() > 0) << name << " is not read";
  }
}

TEST_P(TwoLanes, RecomputationGivesTheSameBits) {
  const auto kept = gradients(ActivationRecompute::off);
  const auto recomputed = gradients(ActivationRecompute::block);
  for (std::size_t i = 0; i < kept.size(); ++i)
    EXPECT_TRUE(test::is_same(kept[i], recomputed[i])) << table_.rows()[i].name;
}

TEST_P(TwoLanes, ScoredPositionsAndDecodingGiveWhatAWholePassGives) {
  const auto model = this->model();
  const auto length = inputs_.size(1);
  const auto whole = model->logits(inputs_, {0, length}, length);
  EXPECT_TRUE(
      test::is_close(model->logits(inputs_, {4, 7}, length), whole.narrow(1, 4, 3), 1e-12, 1e-13));
  auto cache = model->make_cache(inputs_.size(0), length);
  for (std::int64_t i = 0; i < length; ++i) {
    EXPECT_TRUE(test::is_close(model->next_logits(inputs_.narrow(1, i, 1), cache),
                               whole.select(1, i), 1e-12, 1e-13))
        << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, TwoLanes,
                         testing::Values(Case{"mean_gated", FinalLane::mean, true},
                                         Case{"mean", FinalLane::mean, false},
                                         Case{"first_gated", FinalLane::first, true},
                                         Case{"second_gated", FinalLane::second, true}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tg
