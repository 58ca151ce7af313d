// The plan of lanes_plan.h against its formula (model/plan.h) in fp64.
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <utility>

#include "model/lora.h"
#include "ops/attention/attention.h"
#include "ops/attention/projection/qkv_proj_norm_rope.h"
#include "ops/loss/softcap_cross_entropy.h"
#include "ops/mlp/mlp.h"
#include "ops/norm/rms_norm.h"
#include "recipes/gpt_spec.h"
#include "tests/model/lanes_plan.h"

namespace tg {
namespace {

constexpr auto kBlocks = test::kLaneBlocks;
constexpr std::int64_t kHeads = 4, kKvHeads = 2;

// Adapters as the formula reads them: by name, each product times `scale`.
struct PlainAdapters {
  std::map<std::string, at::Tensor> matrices{};
  double scale = 1;
};

// The formula, of the same parameters.
class Formula {
 public:
  Formula(const ModelConfig& config, const ParameterTable& table, PlainAdapters adapters = {})
      : config_(config), table_(table), adapters_(std::move(adapters)) {}

  at::Tensor loss(const test::LanePlan& lanes, ParallelFinalLane head, const at::Tensor& inputs,
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
    const auto out = head == ParallelFinalLane::attention ? lane0
                     : head == ParallelFinalLane::mlp     ? lane1
                                                          : (lane0 + lane1) / 2;
    const auto states = rms_norm(out);
    const auto logits =
        adapted("lm_head_lora", states, at::matmul(states, tokens.t())).flatten(0, 1);
    return softcap_cross_entropy(logits, targets.flatten(), {config_.objective.logit_softcap});
  }

 private:
  at::Tensor mixed(std::int64_t block, const at::Tensor& x, const at::Tensor& x0) const {
    const auto mix = of_block(block, "resid_mix");
    return mix[0] * x + mix[1] * x0;
  }
  at::Tensor attention(std::int64_t block, const at::Tensor& n, const RopeTable& rope) const {
    const auto qo = table_["qo_bank"], kv = table_["kv_bank"];
    const auto projected =
        at::cat({adapted(of_call("q_loras"), n, at::linear(n, qo[block])),
                 adapted(of_call("k_loras"), n, at::linear(n, kv[block])),
                 adapted(of_call("v_loras"), n, at::linear(n, kv[kBlocks + block]))},
                -1);
    const auto heads = qk_norm_rope(
        projected,
        {.heads = kHeads, .kv_heads = kKvHeads, .q_gain = of_block(block, "attn.q_gain")}, rope);
    const auto y = causal_attention(heads.q, heads.k, heads.v).flatten(2, 3);
    return of_block(block, "attn_scale") *
           adapted(of_call("o_loras"), n, at::linear(y, qo[kBlocks + block]));
  }
  at::Tensor feed_forward(std::int64_t block, const at::Tensor& n) const {
    const auto y = mlp(n, {table_["mlp_up_bank"][block], {}}, {table_["mlp_down_bank"][block], {}},
                       config_.mlp_negative_slope);
    const auto added = adapted(of_call("mlp_loras"), n, y);
    ++call_;  // the MLP ends it
    return of_block(block, "mlp_scale") * added;
  }
  at::Tensor of_block(std::int64_t block, const char* name) const {
    return table_["blocks." + std::to_string(block) + "." + name];
  }

  std::string of_call(const char* list) const { return list + ("." + std::to_string(call_)); }
  at::Tensor adapted(const std::string& name, const at::Tensor& x, const at::Tensor& y) const {
    if (adapters_.matrices.empty()) return y;
    const auto transposed = [&](const char* matrix) {
      return adapters_.matrices.at(name + matrix).transpose(1, 2);
    };
    return y + at::matmul(at::matmul(x, transposed(".A")), transposed(".B")) * adapters_.scale;
  }

  const ModelConfig& config_;
  const ParameterTable& table_;
  const PlainAdapters adapters_;
  mutable std::int64_t call_ = 0;
};

class TwoLanes : public testing::TestWithParam<test::LaneCase> {
 protected:
  TwoLanes() : table_(make_parameters(lanes_.spec.parameters, at::kDouble, at::kCPU)) {
    std::uint64_t seed = 1;
    for (const auto& row : table_.rows())
      row.value.detach().copy_(test::normal(row.value.sizes(), seed++) * 0.4);
  }
  std::unique_ptr<Gpt> model(const Numerics& numerics = {.compute = at::kDouble}) const {
    return std::make_unique<Gpt>(lanes_.spec.plan, table_, numerics);
  }
  // Gradients of a step of so many equal micro-batches.
  std::vector<at::Tensor> step(Gpt& model, int micro_batches = 1) const {
    for (const auto& row : table_.rows())
      if (row.value.grad().defined()) row.value.mutable_grad().zero_();
    for (int i = 0; i < micro_batches; ++i) model.loss(inputs_, targets_, {}).backward();
    model.collect_gradients();
    std::vector<at::Tensor> found;
    for (const auto& row : table_.rows()) found.push_back(row.value.grad().clone());
    return found;
  }
  std::vector<at::Tensor> gradients(const Numerics& numerics = {.compute = at::kDouble}) const {
    for (const auto& row : table_.rows()) row.value.mutable_grad().reset();
    return step(*model(numerics));
  }
  void expect_close(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& right,
                    double factor = 1) const {
    for (std::size_t i = 0; i < right.size(); ++i)
      EXPECT_TRUE(test::is_close(found[i], factor * right[i], 1e-10, 1e-13))
          << table_.rows()[i].name;
  }

  const ModelConfig config_ = test::three_blocks();
  const test::LanePlan lanes_ = test::two_lanes(config_, GetParam());
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
  const auto found = gradients();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto& name = table_.rows()[i].name;
    const auto exact = right[i].defined() ? right[i] : at::zeros_like(leaves[i]);
    EXPECT_TRUE(test::is_close(found[i], exact, 1e-10, 1e-13)) << name;
    EXPECT_TRUE(exact.abs().sum().item<double>() > 0) << name << " is not read";
  }
}

TEST_P(TwoLanes, EveryVisitHasAdaptersOfItsOwnByTheFormula) {
  const auto model = this->model();
  auto generator = test::generator(3);
  const LoraAdapters adapters(*model, {.rank = 2, .alpha = 3}, 2, generator);
  adapters.all_b().copy_(test::normal(adapters.all_b().sizes(), 4) * 0.5);
  const auto leaf = adapters.parameters().detach().clone().set_requires_grad(true);
  PlainAdapters plain{.scale = 1.5};
  for (const auto& [name, view] : adapters.all_named())
    plain.matrices[name] = leaf.as_strided(view.sizes(), view.strides(), view.storage_offset());

  const auto expected =
      Formula(config_, table_, plain).loss(lanes_, GetParam().head, inputs_, targets_);
  const auto losses = model->adapted_losses(inputs_, targets_, adapters);
  EXPECT_TRUE(test::is_close(losses.mean(), expected, 1e-13, 0));
  losses.mean().backward();
  const auto right = torch::autograd::grad({expected}, {leaf})[0];
  EXPECT_TRUE(test::is_close(adapters.parameters().grad(), right, 1e-10, 1e-13));
}

TEST_P(TwoLanes, RecomputationGivesTheSameBits) {
  const auto kept = gradients();
  const auto recomputed =
      gradients({.compute = at::kDouble, .recompute = ActivationRecompute::block});
  for (std::size_t i = 0; i < kept.size(); ++i)
    EXPECT_TRUE(test::is_same(kept[i], recomputed[i])) << table_.rows()[i].name;
}

TEST_P(TwoLanes, GradientsAreThoseOfAllMicroBatchesOfAStepAndOfNoOther) {
  const auto model = this->model();
  const auto once = step(*model);
  expect_close(step(*model, 3), once, 3);
  expect_close(step(*model), once);
}

TEST_P(TwoLanes, FollowTheParametersOncePerCast) {
  const auto model = this->model();
  const auto loss = [&] { return model->loss(inputs_, targets_, {}).detach(); };
  const auto before = loss();
  table_[lanes_.post].detach().mul_(1.5);
  EXPECT_TRUE(test::is_same(loss(), before));
  model->cast_weights();
  const auto expected = Formula(config_, table_).loss(lanes_, GetParam().head, inputs_, targets_);
  EXPECT_TRUE(test::is_close(loss(), expected, 1e-13, 0));
}

TEST_P(TwoLanes, PaddedChannelsChangeNothing) {
  expect_close(gradients({.compute = at::kDouble, .padding = {.channels = 16}}), gradients());
}

TEST_P(TwoLanes, ScoredPositionsAndDecodingGiveWhatAWholePassGives) {
  test::expect_the_logits_of_a_whole_pass(*model(), inputs_);
}

INSTANTIATE_TEST_SUITE_P(Plans, TwoLanes, testing::ValuesIn(test::kLaneCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tg
