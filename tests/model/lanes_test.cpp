// A plan that no recipe makes: a block that is visited twice, and two lanes from its second visit
// on. Against its formula (model/plan.h) in fp64.
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
  ParameterId residual, post, skip;
};

// Visits 0, 1, 1 with two lanes, 2 with two lanes and the first visit's output as a skip.
Recipe two_lanes(const ModelConfig& config, FinalLane head, Lanes& lanes) {
  auto recipe = make_recipe(config);
  const auto declare = [&](const char* name, const std::vector<std::int64_t>& shape) {
    recipe.parameters.push_back({.name = name, .shape = shape, .group = ParamGroup::scalar});
    return ParameterId{std::ssize(recipe.parameters) - 1};
  };
  lanes = {declare("residual", {2, 2}), declare("post", {2, 2, 2}), declare("skip", {1, kDim})};
  auto& [embedding, values, matrices, blocks, visits, slots, head_plan] = recipe.plan;
  visits = {{.index = 0, .block = 0, .norm_scale = 1},
            {.index = 1, .block = 1, .norm_scale = 0.7, .keep_input = 0},
            {.index = 2,
             .block = 1,
             .norm_scale = 0.6,
             .lanes = {.residual = lanes.residual, .post = lanes.post, .row = 0}},
            {.index = 3,
             .block = 2,
             .norm_scale = 0.5,
             .skip = {.weights = lanes.skip, .slot = 0},
             .lanes = {.residual = lanes.residual, .post = lanes.post, .row = 1},
             .last = true}};
  slots = 1;
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
    const auto first = whole(0, 1, x0);
    const auto second = whole(1, 0.7, first);
    auto lane0 = second, lane1 = second;
    const auto two = [&](std::int64_t block, double scale, std::int64_t row) {
      const auto a = attention(block, rms_norm(mixed(block, lane0, x0)) * scale, rope);
      const auto b = feed_forward(block, rms_norm(lane1) * scale);
      const auto residual = table_[lanes.residual][row], post = table_[lanes.post][row];
      lane0 = residual[0] * lane0 + post[0][0] * a + post[1][0] * b;
      lane1 = residual[1] * lane1 + post[0][1] * a + post[1][1] * b;
    };
    two(1, 0.6, 0);
    lane0 = lane0 + table_[lanes.skip][0] * first;
    two(2, 0.5, 1);
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

class TwoLanes : public testing::TestWithParam<FinalLane> {
 protected:
  TwoLanes()
      : recipe_(two_lanes(config_, GetParam(), lanes_)),
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
  const auto expected = Formula(config_, table_).loss(lanes_, GetParam(), inputs_, targets_);
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
                         testing::Values(FinalLane::mean, FinalLane::first, FinalLane::second));

}  // namespace
}  // namespace tg
