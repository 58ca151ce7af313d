#include "model/parameters.h"

#include <fmt/format.h>

#include "tests/model/fixtures.h"

namespace tg {
namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

Shapes shapes_of(const ParameterTable& table) {
  Shapes shapes;
  for (const auto& row : table.rows()) {
    EXPECT_TRUE(shapes.emplace(row.name, row.value.sizes().vec()).second) << row.name << " twice";
  }
  return shapes;
}

ParameterTable on_cpu(const ModelConfig& config) {
  return make_parameters(config, at::kFloat, at::kCPU);
}

TEST(Parameters, TheRecordHasItsNamesAndShapes) {
  ModelConfig config;
  config.bigram_vocab_size = 1536;
  Shapes expected = {{"tok_emb.weight", {1024, 512}},
                     {"bigram.embed.weight", {1536, 128}},
                     {"bigram.proj.weight", {512, 128}},
                     {"bigram.scale", {}},
                     {"smear.gate", {512}},
                     {"skip_weights", {5, 512}},
                     {"qo_bank", {22, 512, 512}},
                     {"kv_bank", {22, 256, 512}},
                     {"mlp_up_bank", {11, 1536, 512}},
                     {"mlp_down_bank", {11, 512, 1536}},
                     {"ve_shared.embed.weight", {1024, 128}},
                     {"ve_shared.proj.weight", {256, 128}},
                     {"ve_shared.scale", {}},
                     {"ve_layer_scales.0", {1}},
                     {"ve_layer_scales.1", {1}}};
  for (int i = 0; i < 11; ++i) {
    expected[fmt::format("blocks.{}.attn.q_gain", i)] = {8};
    expected[fmt::format("blocks.{}.attn_scale", i)] = {512};
    expected[fmt::format("blocks.{}.mlp_scale", i)] = {512};
    expected[fmt::format("blocks.{}.resid_mix", i)] = {2, 512};
  }
  const auto table = on_cpu(config);
  EXPECT_EQ(shapes_of(table), expected);
  EXPECT_EQ(table.element_count(), 26'928'220);
}

TEST(Parameters, TheSpeedrunHasItsNamesAndShapes) {
  Shapes expected = {
      {"tok_emb.weight", {50304, 768}}, {"lm_head.weight", {50304, 768}},
      {"qo_bank", {24, 768, 768}},      {"kv_bank", {24, 768, 768}},
      {"mlp_up_bank", {12, 3072, 768}}, {"mlp_down_bank", {12, 768, 3072}},
  };
  for (int i = 0; i < 12; ++i) {
    expected[fmt::format("blocks.{}.attn.value_blend", i)] = {};
    expected[fmt::format("blocks.{}.resid_mix", i)] = {2};
  }
  const auto table = on_cpu(test::speedrun_config());
  EXPECT_EQ(shapes_of(table), expected);
  // 123.6 million with one table: 85 million in the blocks, 38.6 in each table.
  EXPECT_EQ(table.element_count(), 12 * (4 * 768 * 768 + 2 * 3072 * 768 + 3) + 2 * 50304 * 768);
}

TEST(Parameters, SwitchesAddAndRemoveTheirOwn) {
  const auto table = on_cpu(test::tiny_switches());
  Shapes expected = {{"tok_emb.weight", {40, 24}},
                     {"bigram.embed.weight", {30, 24}},  // as wide as the model: no projection
                     {"bigram.scale", {}},
                     {"smear.gate", {24}},
                     {"skip_weights", {2, 24}},
                     {"qo_bank", {8, 24, 24}},
                     {"kv_bank", {8, 24, 24}},
                     {"mlp_up_bank", {4, 36, 24}},
                     {"mlp_down_bank", {4, 24, 36}},
                     {"ve_shared.embed.weight", {40, 10}},
                     {"ve_shared.proj.weight", {24, 10}},
                     {"ve_shared.scale", {}},
                     {"ve_layer_scales.0", {1}},
                     {"ve_layer_scales.1", {1}},
                     {"lm_head.weight", {40, 24}},
                     {"mtp_heads.0.weight", {40, 24}},
                     {"mtp_heads.1.weight", {40, 24}}};
  for (int i = 0; i < 4; ++i) {
    const auto block = fmt::format("blocks.{}.", i);
    expected[block + "attn.q_gain"] = {3};
    expected[block + "attn.attn_gate.weight"] = {3, 24};
    expected[block + "attn.attn_gate.bias"] = {3};
    expected[block + "attn.vr_lambda"] = {2};
    expected[block + "attn_scale"] = {24};
    expected[block + "mlp_scale"] = {24};
    expected[block + "resid_mix"] = {2, 24};
    expected[block + "dtg_gate.weight"] = {1, 24};
    expected[block + "dtg_gate.bias"] = {1};
  }
  EXPECT_EQ(shapes_of(table), expected);
}

TEST(Parameters, ProjectionsVanishWhereBothSidesAreEqual) {
  auto config = test::tiny_record();
  config.ve_dim = 12;  // KV heads × head size
  config.bigram_dim = config.model_dim;
  const auto table = on_cpu(config);
  EXPECT_FALSE(table.find("ve_shared.proj.weight").defined());
  EXPECT_FALSE(table.find("bigram.proj.weight").defined());
  config.ve_layers.clear();
  EXPECT_FALSE(on_cpu(config).find("ve_shared.embed.weight").defined());
}

TEST(Parameters, HiddenChannelsAreRoundedDown) {
  auto config = test::tiny_record();
  config.mlp_mult = 1.49;  // × 24 = 35.76
  EXPECT_EQ(on_cpu(config)["mlp_up_bank"].size(1), 35);
}

TEST(Parameters, KindsDecideWhoUpdatesThem) {
  const std::map<std::string, ParameterKind> kinds = {
      {"qo_bank", ParameterKind::bank},
      {"kv_bank", ParameterKind::bank},
      {"mlp_up_bank", ParameterKind::bank},
      {"mlp_down_bank", ParameterKind::bank},
      {"tok_emb.weight", ParameterKind::table},
      {"bigram.embed.weight", ParameterKind::table},
      {"ve_shared.embed.weight", ParameterKind::table},
      {"ve_shared.proj.weight", ParameterKind::projection},
      {"bigram.proj.weight", ParameterKind::projection},
      {"lm_head.weight", ParameterKind::head},
      {"mtp_heads.0.weight", ParameterKind::mtp_head},
      {"mtp_heads.1.weight", ParameterKind::mtp_head}};
  for (const auto& config : {test::tiny_switches(), test::tiny_record()}) {
    const auto table = on_cpu(config);
    for (const auto& row : table.rows()) {
      const auto known = kinds.find(row.name);
      const auto expected = known == kinds.end() ? ParameterKind::scalar : known->second;
      EXPECT_EQ(static_cast<int>(row.kind), static_cast<int>(expected)) << row.name;
      EXPECT_TRUE(row.value.is_leaf() && row.value.requires_grad()) << row.name;
    }
  }
}

ParameterTable with_patterns(const ModelConfig& config, const std::vector<std::string>& patterns) {
  return make_parameters(config, at::kFloat, at::kCPU, patterns);
}

std::map<std::string, ParameterKind> stepped_otherwise(const ParameterTable& table) {
  std::map<std::string, ParameterKind> found;
  for (const auto& row : table.rows()) {
    if (row.stepped_as != row.kind) found[row.name] = row.stepped_as;
  }
  return found;
}

TEST(Parameters, TheDefaultPatternsLeaveEveryParameterToItsKind) {
  for (const auto& config : {test::tiny_switches(), test::tiny_record(), test::tiny_speedrun()}) {
    const auto table = on_cpu(config);
    EXPECT_TRUE(stepped_otherwise(table).empty());
    EXPECT_EQ(table.pattern_notices(), std::vector<std::string>());
  }
}

TEST(Parameters, ANameThatContainsAPatternIsSteppedAsAScalarWhateverItsKind) {
  auto patterns = default_control_patterns();
  patterns.insert(patterns.end(), {"kv_ba", "proj", "tok_emb", "lm_head", "mtp_heads.1"});
  const auto table = with_patterns(test::tiny_switches(), patterns);
  const std::map<std::string, ParameterKind> expected = {
      {"kv_bank", ParameterKind::scalar},
      {"tok_emb.weight", ParameterKind::scalar},
      {"ve_shared.proj.weight", ParameterKind::scalar},
      {"lm_head.weight", ParameterKind::scalar},
      {"mtp_heads.1.weight", ParameterKind::scalar}};
  EXPECT_EQ(stepped_otherwise(table), expected);
  EXPECT_EQ(table.pattern_notices(), std::vector<std::string>());
}

TEST(Parameters, AMatrixThatNoPatternNamesIsMuonsAndVectorsAreNot) {
  auto config = test::tiny_switches();
  config.num_layers = 2;
  config.ve_layers = {0};
  const auto table = with_patterns(config, {"resid_mix"});
  std::map<std::string, ParameterKind> expected = {{"skip_weights", ParameterKind::bank}};
  for (int i = 0; i < 2; ++i) {
    expected[fmt::format("blocks.{}.attn.attn_gate.weight", i)] = ParameterKind::bank;
    expected[fmt::format("blocks.{}.dtg_gate.weight", i)] = ParameterKind::bank;
  }
  EXPECT_EQ(stepped_otherwise(table), expected);
  EXPECT_EQ(table.pattern_notices(),
            std::vector<std::string>{
                "CONTROL_TENSOR_NAME_PATTERNS leave out skip_weights, "
                "blocks.0.attn.attn_gate.weight, blocks.0.dtg_gate.weight, "
                "blocks.1.attn.attn_gate.weight, blocks.1.dtg_gate.weight: Muon steps them"});
}

TEST(Parameters, ASingleLayerHasNoSkipsToStep) {
  auto config = test::tiny_record();
  config.num_layers = 1;
  config.xsa_last_n = 0;
  config.ve_layers.clear();
  EXPECT_TRUE(stepped_otherwise(with_patterns(config, {"resid_mix"})).empty());
}

TEST(Parameters, PatternsThatNoNameContainsAreNoticed) {
  auto patterns = default_control_patterns();  // of which this model lacks some parameters
  patterns.insert(patterns.end(), {"qo_bonk", "bank", "attn_scales"});
  const std::string what = "CONTROL_TENSOR_NAME_PATTERNS: no parameter's name contains ";
  EXPECT_EQ(with_patterns(test::tiny_speedrun(), patterns).pattern_notices(),
            (std::vector<std::string>{what + "qo_bonk, attn_scales"}));
}

TEST(Parameters, OnlyTablesTakeTheStorageType) {
  const auto half = make_parameters(test::tiny_switches(), at::kBFloat16, at::kCPU);
  for (const auto& row : half.rows()) {
    EXPECT_EQ(row.value.scalar_type(),
              row.kind == ParameterKind::table ? at::kBFloat16 : at::kFloat)
        << row.name;
  }
  const auto fine = make_parameters(test::tiny_switches(), at::kDouble, at::kCPU);
  for (const auto& row : fine.rows()) EXPECT_EQ(row.value.scalar_type(), at::kDouble) << row.name;
}

TEST(Parameters, NamedValuesShareStorageWithoutGradients) {
  const auto table = on_cpu(test::tiny_record());
  const auto named = table.named_values();
  ASSERT_EQ(named.size(), table.rows().size());
  for (std::size_t i = 0; i < named.size(); ++i) {
    EXPECT_EQ(named[i].first, table.rows()[i].name);
    EXPECT_EQ(named[i].second.data_ptr(), table.rows()[i].value.data_ptr());
    EXPECT_FALSE(named[i].second.requires_grad());
  }
  EXPECT_FALSE(table.find("no.such.name").defined());
}

}  // namespace
}  // namespace tg
