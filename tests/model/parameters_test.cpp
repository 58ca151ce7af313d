#include "model/parameters.h"

#include <fmt/format.h>

#include <set>

#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

ParameterTable on_cpu(const ModelConfig& config) {
  return test::make_parameters(config, at::kFloat, at::kCPU);
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

TEST(Parameters, EveryParameterIsALeafOfItsOwnName) {
  for (const auto& config : {test::tiny_switches(), test::tiny_record(), test::tiny_speedrun()}) {
    std::set<std::string> names, parts;
    const auto table = on_cpu(config);
    for (const auto& row : table.rows()) {
      EXPECT_TRUE(names.insert(row.name).second) << row.name << " twice";
      EXPECT_TRUE(row.value.is_leaf() && row.value.requires_grad()) << row.name;
      for (const auto& part : row.parts) {
        EXPECT_TRUE(parts.insert(part.name).second) << part.name << " twice";
      }
    }
  }
}

ParameterTable with_patterns(const ModelConfig& config, const std::vector<std::string>& patterns) {
  return test::make_parameters(config, at::kFloat, at::kCPU, {.control_patterns = patterns});
}

using Groups = std::map<std::string, Update>;

// The groups of those that other patterns than the default ones move.
Groups moved(const ModelConfig& config, const std::vector<std::string>& patterns) {
  const auto usual = on_cpu(config), table = with_patterns(config, patterns);
  Groups found;
  for (std::size_t i = 0; i < table.rows().size(); ++i) {
    const auto& row = table.rows()[i];
    if (row.update != usual.rows()[i].update) found[row.name] = row.update;
  }
  return found;
}

TEST(Parameters, TheDefaultPatternsNeedNoNotice) {
  for (const auto& config : {test::tiny_switches(), test::tiny_record(), test::tiny_speedrun()}) {
    EXPECT_EQ(on_cpu(config).pattern_notices(), std::vector<std::string>());
  }
}

TEST(Parameters, ANameThatContainsAPatternIsInTheScalarsGroupWhateverItIs) {
  auto patterns = default_control_patterns();
  patterns.insert(patterns.end(), {"kv_ba", "proj", "tok_emb", "lm_head", "mtp_heads.1"});
  const Groups expected = {{"kv_bank", Update::scalar},
                           {"tok_emb.weight", Update::scalar},
                           {"lm_head.weight", Update::scalar},
                           {"mtp_heads.1.weight", Update::scalar}};
  EXPECT_EQ(moved(test::tiny_switches(), patterns), expected);
  EXPECT_EQ(with_patterns(test::tiny_switches(), patterns).pattern_notices(),
            std::vector<std::string>());
}

TEST(Parameters, AMatrixThatNoPatternNamesIsMuonsAndVectorsAreNot) {
  auto config = test::tiny_switches();
  config.num_layers = 2;
  config.ve_layers = {0};
  Groups expected = {{"skip_weights", Update::muon}};
  for (int i = 0; i < 2; ++i) {
    expected[fmt::format("blocks.{}.attn.attn_gate.weight", i)] = Update::muon;
    expected[fmt::format("blocks.{}.dtg_gate.weight", i)] = Update::muon;
  }
  EXPECT_EQ(moved(config, {"resid_mix"}), expected);
  EXPECT_EQ(with_patterns(config, {"resid_mix"}).pattern_notices(),
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
  EXPECT_TRUE(moved(config, {"resid_mix"}).empty());
}

TEST(Parameters, PatternsThatNoNameContainsAreNoticed) {
  auto patterns = default_control_patterns();  // of which this model lacks some parameters
  patterns.insert(patterns.end(), {"qo_bonk", "bank", "attn_scales"});
  const std::string what = "CONTROL_TENSOR_NAME_PATTERNS: no parameter's name contains ";
  EXPECT_EQ(with_patterns(test::tiny_speedrun(), patterns).pattern_notices(),
            (std::vector<std::string>{what + "qo_bonk, attn_scales"}));
}

TEST(Parameters, OnlyTablesTakeTheStorageType) {
  const auto half = test::make_parameters(test::tiny_switches(), at::kBFloat16, at::kCPU);
  for (const auto& row : half.rows()) {
    EXPECT_EQ(row.value.scalar_type(), row.update == Update::embedding ? at::kBFloat16 : at::kFloat)
        << row.name;
  }
  const auto fine = test::make_parameters(test::tiny_switches(), at::kDouble, at::kCPU);
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
