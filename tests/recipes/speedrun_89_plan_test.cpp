// Draws, stages and names of the recipes of records 89 and 91, against numbers of their scripts.
#include <map>

#include "base/error.h"
#include "tests/model/fixtures.h"

namespace tg {
namespace {

Settings defaults(RecipeChoice recipe) {
  Settings settings;
  set_recipe_defaults(recipe, settings);
  return settings;
}

// Of 96 channels and 512 tokens.
Settings small(RecipeChoice recipe) {
  auto settings = defaults(recipe);
  auto& model = settings.model;
  model.vocab_size = 512;
  model.model_dim = model.bigram_dim = 96;
  model.bigram_vocab_size = 1000;
  model.bigram_sign_rows = 64;
  if (recipe == RecipeChoice::speedrun_91) model.qk_head_dim = 12;
  return settings;
}

// Sums over all matrices of a script's bank, over a tensor, or single values.
struct Drawn {
  double tables, queries_keys, values_out, mudd, gates, head;
  std::int64_t signs;
  double first_up, first_query, first_value;
};

void expect_draws(RecipeChoice recipe, std::int64_t seed, const Drawn& expected) {
  const auto settings = small(recipe);
  const auto spec = model_spec(settings);
  auto table = make_parameters(spec, settings, at::kFloat, at::kCPU);
  initialize(table, spec.draws, seed);
  std::map<std::string, at::Tensor> parts;
  for (const auto& part : unbanked(table)) parts[part.name] = part.value.to(at::kDouble);
  const auto sum = [&](const std::string& name) { return parts.at(name).sum().item<double>(); };
  const auto sum_of_blocks = [&](const std::string& first, const std::string& second) {
    double found = 0;
    for (const auto& [name, value] : parts) {
      if (name.ends_with(first) || name.ends_with(second)) found += sum(name);
    }
    return found;
  };
  const auto first = [&](const char* name) { return parts.at(name)[0][0].item<double>(); };
  EXPECT_NEAR(sum("value_embeds"), expected.tables, 1e-9);
  EXPECT_NEAR(sum_of_blocks(".c_q.weight", ".c_k.weight"), expected.queries_keys, 1e-9);
  EXPECT_NEAR(sum_of_blocks(".c_v.weight", ".attn.proj.weight"), expected.values_out, 1e-9);
  EXPECT_NEAR(sum("mudd_w1"), expected.mudd, 1e-9);
  EXPECT_NEAR(sum("mudd_gate_w1"), expected.gates, 1e-9);
  EXPECT_NEAR(sum("lm_head.weight"), expected.head, 1e-9);
  EXPECT_TRUE(at::equal(parts.at("lm_head.weight"), parts.at("tok_emb.weight")));
  EXPECT_EQ(sum("bigram_sign_table"), static_cast<double>(expected.signs));
  EXPECT_EQ(parts.at("bigram_sign_table").abs().min().item<double>(), 1);
  EXPECT_NEAR(first("blocks.0.mlp.fc.weight"), expected.first_up, 1e-12);
  EXPECT_NEAR(first("blocks.0.attn.c_q.weight"), expected.first_query, 1e-12);
  EXPECT_NEAR(first("blocks.0.attn.c_v.weight"), expected.first_value, 1e-12);
  EXPECT_NEAR(sum("mudd_b2"), 76.47617721557617, 1e-5);
  EXPECT_NEAR(sum("mudd_gate_b2"), 99.5, 1e-5);
  EXPECT_EQ(sum("bigram_embed.weight") + sum("ve_gate_bank") + sum("smear_gate.weight"), 0);
}

TEST(Speedrun89Weights, AreDrawnInTheScriptsOrder) {
  expect_draws(RecipeChoice::speedrun_89, 42,
               {.tables = -6.971171380175932,
                .queries_keys = 0.8722428988185698,
                .values_out = 0.7330352403076859,
                .mudd = 2.520554636982979,
                .gates = 6.369995862378346,
                .head = 0.6116350435350775,
                .signs = 26,
                .first_up = 0.07927588373422623,
                .first_query = -0.003657398046925664,
                .first_value = -0.007567255757749081});
}

TEST(Speedrun91Weights, AreDrawnInTheScriptsOrder) {
  expect_draws(RecipeChoice::speedrun_91, 92,
               {.tables = -6.418196056594169,
                .queries_keys = 21.843064516989898,
                .values_out = 35.50088583910458,
                .mudd = 7.481527264543502,
                .gates = 3.0075630936962625,
                .head = 0.4647726141292168,
                .signs = -112,
                .first_up = -0.06538350135087967,
                .first_query = -0.0015324277337640524,
                .first_value = -0.03693202883005142});
}

// torch.randn in bf16 times 0.01, and normal_ of 0.005, are other numbers than rounded fp32 draws.
TEST(Speedrun89Weights, OfBf16TablesAreDrawnInBf16) {
  const auto settings = small(RecipeChoice::speedrun_89);
  const auto spec = model_spec(settings);
  auto table = make_parameters(spec, settings, at::kBFloat16, at::kCPU);
  initialize(table, spec.draws, /*seed=*/42);
  const auto sum = [&](const char* name) {
    return table[name].to(at::kDouble).sum().item<double>();
  };
  EXPECT_NEAR(sum("value_embeds"), 2.0186240449547768, 1e-9);
  EXPECT_NEAR(sum("lm_head.weight"), -0.7708215769380331, 1e-9);
}

// At full size: attention's scale, and the frequencies at 0, a quarter, and the end.
TEST(Speedrun89Stages, RotationAndScaleFollowTheLongWindow) {
  const auto expect = [](RecipeChoice recipe, std::int64_t pairs,
                         const std::vector<std::pair<double, std::vector<double>>>& expected) {
    const auto stages = model_spec(defaults(recipe)).plan.stages;
    ASSERT_EQ(stages.size(), expected.size() + 1);
    for (std::size_t i = 0; i < stages.size(); ++i) {
      SCOPED_TRACE(i);
      const auto& [scale, frequencies] = expected[std::min(i, expected.size() - 1)];
      const auto& pass = stages[i].pass;
      EXPECT_NEAR(pass.attention_scale, scale, 1e-12);
      const auto found = pass.rope_frequencies.to(at::kDouble);
      ASSERT_EQ(found.numel(), pairs);
      const auto at = at::tensor({0L, 8L, pairs - 1});
      EXPECT_TRUE(test::is_close(found.index({at}), test::tensor_of(frequencies, {3}), 3e-7, 0));
    }
  };
  expect(RecipeChoice::speedrun_89, 32,
         {{0.1, {1, 0.16716618835926056, 0.0009765625}},
          {0.11694595720774409, {1, 0.10004225373268127, 0.0004185267898719758}},
          {0.12751752379570258, {1, 0.07923147827386856, 0.0002663352352101356}},
          {0.1317779884389435, {1, 0.07363022118806839, 0.00022536059259437025}}});
  expect(RecipeChoice::speedrun_91, 24,
         {{0.11547005383792515, {1, 0.08973030000925064, 0.0009765625}},
          {0.13503755974905898, {1, 0.04587230086326599, 0.0004185267898719758}},
          {0.14724455337968675, {1, 0.03217330947518349, 0.0002663352352101356}},
          {0.1521641141969828, {1, 0.028215069323778152, 0.00022536059259437025}}});
}

TEST(Speedrun89Settings, WhatItsLayersFixIsRefusedByName) {
  const auto refusal = [](const Settings& settings) -> std::string {
    try {
      model_spec(settings);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::config);
      return error.what();
    }
    return "";
  };
  const auto own = defaults(RecipeChoice::speedrun_91);
  EXPECT_EQ(refusal(own), "");
  auto settings = own;
  settings.model.bigram_dim = 128;
  EXPECT_NE(refusal(settings).find("BIGRAM_DIM=128: RECIPE=speedrun_91"), std::string::npos);
  settings = own;
  settings.model.qk_head_dim = 132;
  EXPECT_NE(refusal(settings).find("QK_HEAD_DIM=132: expected at most the 128"), std::string::npos);
  settings.model.qk_head_dim = 90;
  EXPECT_NE(refusal(settings).find("found 90"), std::string::npos);
  settings = own;
  settings.runtime.activation_recompute = ActivationRecompute::block;
  EXPECT_NE(refusal(settings).find("ACTIVATION_RECOMPUTE=block"), std::string::npos);
}

// The script's weights of `world` ranks, whose banks are padded; element i of `scalars` is i.
NamedTensors script_weights(const Settings& settings, std::int64_t world) {
  const auto& model = settings.model;
  const auto dim = model.model_dim, hidden = mlp_hidden(model), vocab = model.vocab_size;
  const auto padded = [&](std::int64_t count) { return (count + world - 1) / world * world; };
  const auto normal = [](at::IntArrayRef shape) { return test::normal(shape, 1, at::kFloat); };
  const auto mudd = model.gates.mudd_dim;
  return {{"value_embeds", at::zeros({5 * vocab, dim})},
          {"ve_gate_bank", at::zeros({5, 6, 12})},
          {"qk_bank", normal({padded(60), 2 * qk_head_dim(model), dim})},
          {"vo_bank", normal({padded(20), dim, dim})},
          {"mlp_bank", normal({padded(12), 2, hidden, dim})},
          {"post_lambdas", at::zeros({11, 2})},
          {"resid_lambdas", at::zeros({11, 2})},
          {"scalars", at::arange(padded(24), at::kFloat)},
          {"mudd_w1", at::zeros({2, mudd, dim})},
          {"mudd_w2", at::zeros({2, 14, mudd})},
          {"mudd_b2", at::zeros({2, 14})},
          {"_mudd_gate_scale", at::zeros({})},
          {"mudd_gate_w1", at::zeros({2, mudd, dim})},
          {"mudd_gate_w2", at::zeros({2, 41, mudd})},
          {"mudd_gate_b2", at::zeros({2, 41})},
          {"lm_head.weight", at::zeros({dim, vocab})},
          {"embed.weight", at::zeros({vocab, dim})},
          {"smear_gate.weight", at::zeros({1, 12})},
          {"bigram_embed.weight", at::zeros({model.bigram_vocab_size, dim})},
          {"bigram_sign_table", at::zeros({model.bigram_sign_rows, dim})},
          {"_mlp_down_act_scales", at::zeros({12})}};
}

TEST(Speedrun89Names, TheScriptsWeightsFillTheWholeModelOnAnyNumberOfRanks) {
  for (const auto recipe : {RecipeChoice::speedrun_89, RecipeChoice::speedrun_91}) {
    const auto settings = small(recipe);
    const auto table = make_parameters(model_spec(settings), settings, at::kFloat, at::kCPU);
    for (const std::int64_t world : {1, 8}) {
      SCOPED_TRACE(world);
      const auto given = script_weights(settings, world);
      const std::map<std::string, at::Tensor> script(given.begin(), given.end());
      auto tensors = given;
      ASSERT_TRUE(recipe_of(settings).script_weights.rename(tensors));
      const std::map<std::string, at::Tensor> found(tensors.begin(), tensors.end());
      auto left = found;
      for (const auto& part : unbanked(table)) {
        ASSERT_TRUE(found.contains(part.name)) << part.name;
        EXPECT_EQ(found.at(part.name).sizes(), part.value.sizes()) << part.name;
        left.erase(part.name);
      }
      EXPECT_TRUE(left.empty()) << left.begin()->first;
      const auto is = [&](const std::string& name, const at::Tensor& expected) {
        EXPECT_TRUE(at::equal(found.at(name), expected)) << name;
      };
      // Block 7 is the seventh with attention: matrices 12 and 13 of either kind, Q and K in
      // threes.
      const auto& qk = script.at("qk_bank");
      is("blocks.7.attn.c_q.weight", qk.slice(0, 36, 39).flatten(0, 1));
      is("blocks.7.attn.c_k.weight", qk.slice(0, 39, 42).flatten(0, 1));
      is("blocks.7.attn.c_v.weight", script.at("vo_bank")[12]);
      const auto& out = script.at("vo_bank")[13];
      is("blocks.7.attn.proj.weight", recipe == RecipeChoice::speedrun_91 ? out.t() : out);
      is("blocks.10.mlp.fc.weight", script.at("mlp_bank")[10][0]);
      is("blocks.10.mlp.proj.weight", script.at("mlp_bank")[10][1].t());
      is("blocks.7.attn.qkv_scale", at::full({1}, 14.f));
      is("blocks.7.attn_scale", at::full({1}, 15.f));
      is("smear_lambda", at::full({1}, 22.f));
      is("skip_lambda", at::full({1}, 23.f));
    }
  }
}

}  // namespace
}  // namespace tg
