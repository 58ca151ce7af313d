// The recipe of record 43 against its formula in fp64, and against numbers of its script.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "ops/norm/rms_norm.h"
#include "tests/model/fixtures.h"

namespace tg {
namespace {

Settings defaults() {
  Settings settings;
  set_recipe_defaults(RecipeChoice::speedrun_43, settings);
  return settings;
}

// Windows of 3 and 5 tokens, then of 5 and 9.
Settings tiny() {
  auto settings = defaults();
  auto& model = settings.model;
  model.vocab_size = 40;
  model.num_heads = model.num_kv_heads = 2;
  model.model_dim = 24;
  model.mlp_mult = 2;
  model.gates.gate_window = 5;
  model.windows.window_block = 2;
  model.windows.short_window = CountSchedule({{1, 0}, {2, 4}});
  model.windows.long_window = CountSchedule({{2, 0}, {4, 4}});
  model.windows.final_long_window = 6;
  return settings;
}

// The model as the script computes it, of the same parameters and with no kernel in common.
class Formula {
 public:
  Formula(const Settings& settings, const ParameterTable& table, const Stage& stage,
          at::Tensor segments)
      : config_(settings.model), table_(table), pass_(stage.pass), segments_(std::move(segments)) {
    for (const auto& row : table.rows()) {
      for (std::size_t i = 0; i < row.parts.size(); ++i) {
        // The parts of a bank lie block by block, its matrices kind by kind.
        const auto kinds = row.value.dim() == 3 ? kinds_of(row) : 1;
        const auto matrices = static_cast<std::int64_t>(row.parts.size()) / kinds;
        const auto at = static_cast<std::int64_t>(i);
        weights_[row.parts[i].name] =
            row.value.dim() == 3 ? row.value[at % kinds * matrices + at / kinds] : row.value;
      }
    }
  }

  at::Tensor loss(const at::Tensor& inputs, const at::Tensor& targets) const {
    const auto e = at::embedding(weight("tok_emb.weight"), inputs);
    const auto gate = gated(e, weight("smear_gate.weight")) * weight("smear_lambda");
    const auto before = at::constant_pad_nd(e.slice(1, 0, -1), {0, 0, 1, 0});
    const auto x0 = rms_norm(e + gate * before);
    auto x = x0, backout = x0;
    std::map<std::int64_t, at::Tensor> outputs;
    for (std::int64_t i = 1; i < 12; ++i) {
      if (i >= 6 && i <= 10) x = x + weight("skip_weights")[i - 6].sigmoid() * outputs[11 - i];
      const auto mix = weight(block(i) + "resid_mix");
      x = mix[0] * x + mix[1] * x0;
      if (i != 7) x = x + attention(i, rms_norm(x), inputs);
      const auto hidden = at::linear(rms_norm(x), weight(block(i) + "mlp.fc.weight")).relu();
      x = x + at::linear(hidden * hidden, weight(block(i) + "mlp.proj.weight"));
      outputs[i] = x;
      if (i == 8) backout = x;
    }
    const auto states = rms_norm(x - weight("backout_lambda") * backout);
    const auto z = at::linear(states, weight("lm_head.weight"));
    const auto logits = 30 * at::sigmoid(z / 7.5);
    return at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten());
  }

 private:
  static std::int64_t kinds_of(const Parameter& row) {
    return row.name == "qo_bank" || row.name == "kv_bank" ? 2 : 1;
  }
  static std::string block(std::int64_t i) { return "blocks." + std::to_string(i) + "."; }
  const at::Tensor& weight(const std::string& name) const { return weights_.at(name); }
  at::Tensor gated(const at::Tensor& x, const at::Tensor& weight) const {
    return at::linear(x.slice(-1, 0, config_.gates.gate_window), weight).sigmoid();
  }
  at::Tensor rotated(const at::Tensor& x) const {
    const auto pairs = x.size(-1) / 2;
    const auto angle =
        at::outer(at::arange(x.size(1), at::kDouble), pass_.rope_frequencies.to(at::kDouble))
            .unsqueeze(1);
    const auto a = x.slice(-1, 0, pairs), b = x.slice(-1, pairs);
    return at::cat({a * angle.cos() + b * angle.sin(), b * angle.cos() - a * angle.sin()}, -1);
  }
  at::Tensor attention(std::int64_t i, const at::Tensor& n, const at::Tensor& inputs) const {
    const auto name = block(i) + "attn.";
    const auto heads = [&](const at::Tensor& x) {
      return x.unflatten(-1, {config_.num_heads, -1});
    };
    const auto q = rotated(rms_norm(heads(at::linear(n, weight(name + "c_q.weight")))));
    const auto k = rotated(rms_norm(heads(at::linear(n, weight(name + "c_k.weight")))));
    auto v = weight(name + "value_scale") * heads(at::linear(n, weight(name + "c_v.weight")));
    static const std::map<std::int64_t, int> tables = {{1, 1}, {2, 2}, {9, 0}, {10, 1}, {11, 2}};
    if (const auto found = tables.find(i); found != tables.end()) {
      const auto table = weight("value_embeds." + std::to_string(found->second) + ".weight");
      v = v + weight(name + "ve_scale") * heads(at::embedding(table, inputs));
    }
    const bool is_long = i == 4 || i == 11;
    const auto w = pass_.calls[static_cast<std::size_t>(is_long ? 3 : 0)].window - 1;
    const auto t = at::arange(n.size(1));
    const auto back = t.unsqueeze(1) - t.unsqueeze(0);
    const auto seen = back.ge(0)
                          .logical_and(back.le(w))
                          .logical_and(segments_.unsqueeze(1).eq(segments_.unsqueeze(0)));
    const auto scores = pass_.attention_scale * at::einsum("bthd,bshd->bhts", {q, k});
    const auto shares = scores.masked_fill(seen.logical_not(), -1e30).softmax(-1);
    const auto y = at::einsum("bhts,bshd->bthd", {shares, v}) *
                   gated(n, weight(name + "attn_gate.weight")).unsqueeze(-1);
    return at::linear(y.flatten(2), weight(name + "proj.weight"));
  }

  const ModelConfig& config_;
  const ParameterTable& table_;
  const Pass& pass_;
  const at::Tensor segments_;  // [T], each token's
  std::map<std::string, at::Tensor> weights_;
};

class Speedrun43 : public testing::Test {
 protected:
  Speedrun43() {
    std::uint64_t seed = 1;
    for (const auto& row : table_.rows())
      row.value.detach().copy_(test::normal(row.value.sizes(), seed++) * 0.4);
  }
  // → the loss; its gradients are the parameters'.
  at::Tensor step(Gpt& model) const {
    for (const auto& row : table_.rows())
      if (row.value.grad().defined()) row.value.mutable_grad().zero_();
    const auto loss = model.loss(inputs_, targets_, {}, documents_);
    loss.backward();
    model.collect_gradients();
    return loss;
  }
  at::Tensor formula(std::size_t stage) const {
    return Formula(settings_, table_, spec_.plan.stages[stage], segments_).loss(inputs_, targets_);
  }

  const Settings settings_ = tiny();
  const ModelSpec spec_ = model_spec(settings_);
  const ParameterTable table_ = make_parameters(spec_, settings_, at::kDouble, at::kCPU);
  // The first token of the second segment is none that a rule would know.
  const at::Tensor tokens_ = test::integers({1, 21}, 40, 2), inputs_ = tokens_.slice(1, 0, -1),
                   targets_ = tokens_.slice(1, 1);
  const at::Tensor segments_ = at::arange(20).ge(13).to(at::kLong);
  const Documents documents_ =
      documents_at(at::tensor({0, 13, 20}, at::kInt), 1, 20, /*longest=*/20);
};

TEST_F(Speedrun43, LossAndEveryGradientAreTheFormulasInEveryStage) {
  ASSERT_EQ(spec_.plan.stages.size(), 3);
  for (std::size_t stage = 0; stage < 3; ++stage) {
    SCOPED_TRACE(stage);
    Gpt model(spec_.plan, table_, {.compute = at::kDouble});
    model.set_stage(static_cast<std::int64_t>(stage));
    const auto expected = formula(stage);
    EXPECT_TRUE(test::is_close(step(model), expected, 1e-12, 0));
    std::vector<at::Tensor> leaves;
    for (const auto& row : table_.rows()) leaves.push_back(row.value);
    const auto right = torch::autograd::grad({expected}, leaves);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const auto& name = table_.rows()[i].name;
      EXPECT_TRUE(test::is_close(leaves[i].grad(), right[i], 1e-9, 1e-12)) << name;
      EXPECT_TRUE(right[i].abs().sum().item<double>() > 0) << name << " is not read";
    }
  }
}

TEST_F(Speedrun43, RecomputationGivesTheSameBits) {
  const auto gradients = [&](ActivationRecompute recompute) {
    Gpt model(spec_.plan, table_, {.compute = at::kDouble, .recompute = recompute});
    step(model);
    std::vector<at::Tensor> found;
    for (const auto& row : table_.rows()) found.push_back(row.value.grad().clone());
    return found;
  };
  const auto kept = gradients(ActivationRecompute::off);
  const auto recomputed = gradients(ActivationRecompute::block);
  for (std::size_t i = 0; i < kept.size(); ++i)
    EXPECT_TRUE(at::equal(kept[i], recomputed[i])) << table_.rows()[i].name;
}

TEST_F(Speedrun43, LogitsOfAFewPositionsAndOfDecodingAreThoseOfAWholePass) {
  const Gpt model(spec_.plan, table_, {.compute = at::kDouble});
  test::expect_the_logits_of_a_whole_pass(model, inputs_);
}

// Sums that the script's own draws have with this seed, at 96 channels and 512 tokens.
TEST(Speedrun43Weights, AreDrawnInTheScriptsOrder) {
  auto settings = defaults();
  settings.model.vocab_size = 512;
  settings.model.model_dim = 96;
  const auto spec = model_spec(settings);
  auto table = make_parameters(spec, settings, at::kFloat, at::kCPU);
  initialize(table, spec.draws, /*seed=*/42);
  std::map<std::string, at::Tensor> parts;
  for (const auto& part : unbanked(table)) parts[part.name] = part.value.to(at::kDouble);
  const auto sum = [&](const std::string& name) { return parts.at(name).sum().item<double>(); };
  EXPECT_NEAR(sum("tok_emb.weight"), 122.3270211302497, 1e-9);
  EXPECT_NEAR(sum("value_embeds.2.weight"), -23.53323314548834, 1e-9);
  const std::string first = "blocks.1.", last = "blocks.11.";
  EXPECT_NEAR(sum(first + "attn.c_q.weight") + sum(first + "attn.c_k.weight") +
                  sum(first + "attn.c_v.weight") + sum(first + "attn.proj.weight"),
              -12.39508175446781, 1e-9);
  EXPECT_NEAR(sum(first + "mlp.fc.weight"), -17.937663370621067, 1e-9);
  // The script has it transposed.
  EXPECT_NEAR(parts.at(first + "mlp.fc.weight")[1][0].item<double>(), -0.004922772757709026, 1e-12);
  EXPECT_NEAR(sum(last + "mlp.fc.weight"), -2.2576221976021174, 1e-9);
  EXPECT_EQ(sum(last + "mlp.proj.weight"), 0);
  EXPECT_EQ(sum("lm_head.weight"), 0);
}

// The numbers of its script, of heads of 16 channels and windows counted in blocks of 4 tokens.
TEST(Speedrun43Stages, RotationAndScaleFollowTheLongWindow) {
  auto settings = defaults();
  settings.model.model_dim = 96;
  settings.model.windows.window_block = 4;
  const auto stages = model_spec(settings).plan.stages;
  const auto expect = [&](std::size_t stage, double scale, const std::vector<double>& turning) {
    SCOPED_TRACE(stage);
    const auto& pass = stages[stage].pass;
    EXPECT_NEAR(pass.attention_scale, scale, 1e-12);
    const auto frequencies = pass.rope_frequencies.to(at::kDouble);
    ASSERT_EQ(frequencies.numel(), 8);
    EXPECT_TRUE(test::is_close(frequencies.slice(0, 0, 4), test::tensor_of(turning, {4}), 3e-7, 0));
    EXPECT_EQ(frequencies.slice(0, 4).abs().sum().item<double>(), 0);
  };
  expect(0, 0.1, {1.0, 0.09921255707740784, 0.009843136183917522, 0.0009765625});
  expect(1, 0.11694595720774409,
         {0.445343017578125, 0.042519666254520416, 0.0042184870690107346, 0.0004185267898719758});
  expect(2, 0.12751752379570258,
         {0.28854361176490784, 0.027057968080043793, 0.0026844916865229607, 0.0002663352352101356});
  expect(3, 0.1317779884389435,
         {0.24561378359794617, 0.02289520390331745, 0.0022714929655194283, 0.00022536059259437025});
  // What is scored at the end has other windows alone.
  expect(4, 0.1317779884389435,
         {0.24561378359794617, 0.02289520390331745, 0.0022714929655194283, 0.00022536059259437025});
}

TEST(Speedrun43Stages, BeginAtTheStepsOfTheWindowsAndEndWithOneThatIsScoredAlone) {
  const auto plan = model_spec(defaults()).plan;
  ASSERT_EQ(plan.stages.size(), 5);
  const auto windows = [&](std::size_t stage) {
    const auto& calls = plan.stages[stage].pass.calls;
    return std::pair(calls[0].window, calls[3].window);
  };
  EXPECT_EQ(windows(0), std::pair(129L, 385L));
  EXPECT_EQ(windows(3), std::pair(769L, 1665L));
  EXPECT_EQ(windows(4), std::pair(769L, 2561L));
  EXPECT_EQ(plan.last_stage(), 3);
  EXPECT_EQ(plan.scored_stage(3), 4);
  EXPECT_EQ(plan.scored_stage(2), 2);
  EXPECT_FALSE(plan.stages[1].begun(734, 1));
  EXPECT_TRUE(plan.stages[1].begun(735, 0));
  EXPECT_FALSE(plan.stages[4].begun(1 << 30, 1));
}

std::string refusal(const Settings& settings) {
  try {
    model_spec(settings);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::config);
    return error.what();
  }
  return "";
}

TEST(Speedrun43Settings, WhatItsLayersFixIsRefusedByName) {
  EXPECT_EQ(refusal(defaults()), "");
  auto settings = defaults();
  settings.model.xsa_last_n = 4;
  EXPECT_EQ(refusal(settings),
            "XSA_LAST_N=4: RECIPE=speedrun_43 has its own layers (expected 0); leave it out");
  settings = defaults();
  settings.model.num_kv_heads = 3;
  EXPECT_NE(refusal(settings).find("NUM_KV_HEADS=3"), std::string::npos);
  settings = defaults();
  settings.model.windows.short_window = CountSchedule({{1, 0}, {3, 0.5}});
  EXPECT_NE(refusal(settings).find("shares alone"), std::string::npos);
}

// Queries, keys, values and output are one tensor of the script, its scalars one vector.
TEST(Speedrun43Names, TheScriptsWeightsFillTheWholeModel) {
  const auto settings = tiny();
  const auto table = make_parameters(model_spec(settings), settings, at::kFloat, at::kCPU);
  const std::int64_t dim = 24, hidden = 48;
  const auto scalars = at::arange(64, at::kFloat);
  const auto qkvo = test::normal({dim, 4 * dim}, 1, at::kFloat),
             fc = test::normal({dim, hidden}, 2, at::kFloat);
  NamedTensors tensors = {{"embed.weight", at::zeros({40, dim})},
                          {"scalars", scalars},
                          {"smear_gate.weight", at::zeros({1, 5})}};
  for (int k = 0; k < 3; ++k)
    tensors.emplace_back("value_embeds." + std::to_string(k) + ".weight", at::zeros({40, dim}));
  for (int i = 1; i < 12; ++i) {
    const auto block = "blocks." + std::to_string(i) + ".";
    if (i != 7) {
      tensors.emplace_back(block + "attn.qkvo_w", qkvo);
      tensors.emplace_back(block + "attn.attn_gate.weight", at::zeros({2, 5}));
    }
    tensors.emplace_back(block + "mlp.c_fc", fc);
    tensors.emplace_back(block + "mlp.c_proj", fc);
  }
  tensors.emplace_back("lm_head.weight", at::zeros({40, dim}));
  const auto& [script, rename] = recipe_of(settings).script_weights;
  ASSERT_TRUE(rename(tensors));
  std::map<std::string, at::Tensor> found(tensors.begin(), tensors.end());
  EXPECT_EQ(found.size(), tensors.size());
  for (const auto& part : unbanked(table)) {
    ASSERT_TRUE(found.contains(part.name)) << part.name;
    EXPECT_EQ(found[part.name].sizes(), part.value.sizes()) << part.name;
    found.erase(part.name);
  }
  EXPECT_TRUE(found.empty()) << found.begin()->first;
  const std::map<std::string, at::Tensor> again(tensors.begin(), tensors.end());
  const auto is = [&](const std::string& name, const at::Tensor& expected) {
    EXPECT_TRUE(at::equal(again.at(name), expected)) << name;
  };
  is("blocks.2.attn.c_v.weight", qkvo.view({4, dim, dim})[2]);
  is("blocks.2.mlp.fc.weight", fc.t());
  is("blocks.2.mlp.proj.weight", fc);
  is("skip_weights", scalars.slice(0, 0, 5));
  is("blocks.2.resid_mix", scalars.slice(0, 16, 18));
  is("blocks.2.attn.value_scale", scalars.slice(0, 40, 41));
  is("blocks.2.attn.ve_scale", scalars.slice(0, 41, 42));
  is("smear_lambda", scalars.slice(0, 60, 61));
  is("backout_lambda", scalars[61]);
  NamedTensors own = {{"tok_emb.weight", at::zeros({2, 2})}};
  EXPECT_FALSE(rename(own));
}

}  // namespace
}  // namespace tg
