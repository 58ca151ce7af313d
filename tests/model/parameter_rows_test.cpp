// The parameter table as a table: every column of every row.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <sstream>

#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

std::string text_of(const Update& update) {
  if (update.by_matrix()) return "muon";
  if (update == Update::embedding) return "embedding";
  if (update == Update::tied_embedding) return "tied";
  if (update == Update::scalar) return "scalar";
  return update == Update::head ? "head" : "none";
}

std::string text_of(GradientReduction reduction) {
  if (reduction == GradientReduction::none) return "none";
  return reduction == GradientReduction::all_reduce ? "all_reduce" : "reduce_scatter";
}

std::string text_of(const Initial& initial) {
  switch (initial.dist) {
    case InitDist::constant:
      return fmt::format("{}", initial.number);
    case InitDist::first_row:
      return fmt::format("{},then_0", initial.number);
    case InitDist::torch_default:
      return "torch_default";
    case InitDist::normal:
      return fmt::format("normal_{}", initial.number);
    case InitDist::uniform:
      return fmt::format("uniform_{}", initial.number);
    case InitDist::normal_sign:
      return "normal_sign";
    case InitDist::values:
      return fmt::format("{}_values", initial.values.size());
    case InitDist::orthogonal:
      break;
  }
  return "orthogonal";
}

std::string text_of(Quantization quantization) {
  if (quantization == Quantization::keep_fp32) return "keep";
  return quantization == Quantization::int6 ? "int6" : "int8";
}

std::string shape_of(const at::Tensor& value) {
  return fmt::format("[{}]", fmt::join(value.sizes(), ","));
}

// blocks.7.attn_scale → blocks.i.attn_scale
std::string of_any_block(const std::string& name) {
  const std::string blocks = "blocks.";
  if (name.rfind(blocks, 0) != 0) return name;
  return blocks + "i" + name.substr(name.find('.', blocks.size()));
}

// Every row a line; the matrices of a bank one each below it. What is alike in several blocks
// stands there once.
std::vector<std::string> lines_of(const ParameterTable& table) {
  std::vector<std::string> lines;
  std::set<std::string> seen;
  const auto add = [&](const std::string& line) {
    if (seen.insert(line).second) lines.push_back(line);
  };
  for (const auto& row : table.rows()) {
    const auto line =
        fmt::format("{} {} {} {} {} {}", of_any_block(row.name), shape_of(row.value),
                    row.value.scalar_type() == at::kBFloat16 ? "bf16" : "fp32", text_of(row.update),
                    text_of(row.reduction()), row.exported ? "exported" : "kept_back");
    const auto columns_of = [](const ParameterPart& part) {
      return text_of(part.initial) + " " + text_of(part.quantization);
    };
    const bool whole = row.parts.size() == 1 && row.parts[0].name == row.name;
    add(whole ? line + " " + columns_of(row.parts[0]) : line);
    if (whole) continue;
    for (const auto& part : row.parts) {
      add(fmt::format("- {} {} {}", of_any_block(part.name), shape_of(part.value),
                      columns_of(part)));
    }
  }
  return lines;
}

// Lines with one space between words.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::vector<std::string> found;
    for (std::string word; words >> word;) found.push_back(word);
    if (!found.empty()) lines.push_back(fmt::format("{}", fmt::join(found, " ")));
  }
  return lines;
}

ParameterTable in_bf16(const ModelConfig& config, const test::ParameterOptions& options = {}) {
  return test::make_parameters(config, at::kBFloat16, at::kMeta, options);
}

TEST(ParameterRows, OfTheRecord) {
  ModelConfig config;
  config.bigram_vocab_size = 1536;
  const auto table = in_bf16(config);
  EXPECT_EQ(table.element_count(), 26'928'220);
  EXPECT_EQ(lines_of(table), lines_of(R"(
qo_bank                     [22,512,512]   fp32 muon      reduce_scatter exported
- blocks.i.attn.c_q.weight  [512,512]                                             orthogonal   int6
- blocks.i.attn.proj.weight [512,512]                                             0            int6
kv_bank                     [22,256,512]   fp32 muon      reduce_scatter exported
- blocks.i.attn.c_k.weight  [256,512]                                             orthogonal   int6
- blocks.i.attn.c_v.weight  [256,512]                                             orthogonal   int6
mlp_up_bank                 [11,1536,512]  fp32 muon      reduce_scatter exported
- blocks.i.mlp.fc.weight    [1536,512]                                            orthogonal   int6
mlp_down_bank               [11,512,1536]  fp32 muon      reduce_scatter exported
- blocks.i.mlp.proj.weight  [512,1536]                                            0            int6
tok_emb.weight              [1024,512]     bf16 tied      all_reduce     exported normal_0.005 int8
bigram.embed.weight         [1536,128]     bf16 tied      all_reduce     exported 0            int8
bigram.proj.weight          [512,128]      fp32 scalar    all_reduce     exported orthogonal   int6
bigram.scale                []             fp32 scalar    all_reduce     exported 0.05         int8
smear.gate                  [512]          fp32 scalar    all_reduce     exported 0            keep
skip_weights                [5,512]        fp32 scalar    all_reduce     exported 1            keep
blocks.i.attn.q_gain        [8]            fp32 scalar    all_reduce     exported 1.5          keep
blocks.i.attn_scale         [512]          fp32 scalar    all_reduce     exported 1            keep
blocks.i.mlp_scale          [512]          fp32 scalar    all_reduce     exported 1            keep
blocks.i.resid_mix          [2,512]        fp32 scalar    all_reduce     exported 1,then_0     keep
ve_shared.embed.weight      [1024,128]     bf16 tied      all_reduce     exported normal_0.01  int8
ve_shared.proj.weight       [256,128]      fp32 scalar    all_reduce     exported orthogonal   int6
ve_shared.scale             []             fp32 scalar    all_reduce     exported 0.1          keep
ve_layer_scales.0           [1]            fp32 scalar    all_reduce     exported 1            keep
ve_layer_scales.1           [1]            fp32 scalar    all_reduce     exported 1            keep
)"));
}

TEST(ParameterRows, OfTheSpeedrun) {
  const auto table = in_bf16(test::speedrun_config());
  // 123.6 million with one table: 85 million in the blocks, 38.6 in each table.
  EXPECT_EQ(table.element_count(), 12 * (4 * 768 * 768 + 2 * 3072 * 768 + 3) + 2 * 50304 * 768);
  EXPECT_EQ(lines_of(table), lines_of(R"(
qo_bank                     [24,768,768]   fp32 muon      reduce_scatter exported
- blocks.i.attn.c_q.weight  [768,768]                                             torch_default int6
- blocks.i.attn.proj.weight [768,768]                                             0             int6
kv_bank                     [24,768,768]   fp32 muon      reduce_scatter exported
- blocks.i.attn.c_k.weight  [768,768]                                             torch_default int6
- blocks.i.attn.c_v.weight  [768,768]                                             torch_default int6
mlp_up_bank                 [12,3072,768]  fp32 muon      reduce_scatter exported
- blocks.i.mlp.fc.weight    [3072,768]                                            torch_default int6
mlp_down_bank               [12,768,3072]  fp32 muon      reduce_scatter exported
- blocks.i.mlp.proj.weight  [768,3072]                                            0             int6
tok_emb.weight              [50304,768]    bf16 embedding reduce_scatter exported torch_default int8
blocks.i.attn.value_blend   []             fp32 scalar    all_reduce     exported 0.5           int6
blocks.i.resid_mix          [2]            fp32 scalar    all_reduce     exported 1,then_0      keep
lm_head.weight              [50304,768]    fp32 head      reduce_scatter exported 0             int8
)"));
}

// What neither recipe has; the bigram table is as wide as the model and needs no projection.
TEST(ParameterRows, OfEverySwitch) {
  const auto table = in_bf16(test::tiny_switches());
  EXPECT_EQ(table.rows().size(), 53u);
  EXPECT_EQ(lines_of(table), lines_of(R"(
qo_bank                         [8,24,24] fp32 muon      reduce_scatter exported
- blocks.i.attn.c_q.weight      [24,24]                                           orthogonal    int6
- blocks.i.attn.proj.weight     [24,24]                                           0             int6
kv_bank                         [8,24,24] fp32 muon      reduce_scatter exported
- blocks.i.attn.c_k.weight      [24,24]                                           orthogonal    int6
- blocks.i.attn.c_v.weight      [24,24]                                           orthogonal    int6
mlp_up_bank                     [4,36,24] fp32 muon      reduce_scatter exported
- blocks.i.mlp.fc.weight        [36,24]                                           orthogonal    int6
mlp_down_bank                   [4,24,36] fp32 muon      reduce_scatter exported
- blocks.i.mlp.proj.weight      [24,36]                                           0             int6
tok_emb.weight                  [40,24]   bf16 embedding all_reduce     exported  torch_default int8
bigram.embed.weight             [30,24]   bf16 embedding all_reduce     exported  0             int8
bigram.scale                    []        fp32 scalar    all_reduce     exported  0.05          int8
smear.gate                      [24]      fp32 scalar    all_reduce     exported  0             keep
skip_weights                    [2,24]    fp32 scalar    all_reduce     exported  1             keep
blocks.i.attn.q_gain            [3]       fp32 scalar    all_reduce     exported  1.5           keep
blocks.i.attn.attn_gate.weight  [3,24]    fp32 scalar    all_reduce     exported  0             keep
blocks.i.attn.attn_gate.bias    [3]       fp32 scalar    all_reduce     exported  4             keep
blocks.i.attn.vr_lambda         [2]       fp32 scalar    all_reduce     exported  0.5           keep
blocks.i.attn_scale             [24]      fp32 scalar    all_reduce     exported  1             keep
blocks.i.mlp_scale              [24]      fp32 scalar    all_reduce     exported  1             keep
blocks.i.resid_mix              [2,24]    fp32 scalar    all_reduce     exported  1,then_0      keep
blocks.i.dtg_gate.weight        [1,24]    fp32 scalar    all_reduce     exported  0             keep
blocks.i.dtg_gate.bias          [1]       fp32 scalar    all_reduce     exported  2             keep
ve_shared.embed.weight          [40,10]   bf16 embedding all_reduce     exported  normal_0.01   int8
ve_shared.proj.weight           [24,10]   fp32 scalar    all_reduce     exported  0             int6
ve_shared.scale                 []        fp32 scalar    all_reduce     exported  0.1           keep
ve_layer_scales.0               [1]       fp32 scalar    all_reduce     exported  1             keep
ve_layer_scales.1               [1]       fp32 scalar    all_reduce     exported  1             keep
lm_head.weight                  [40,24]   fp32 head      all_reduce     exported  0             int8
mtp_heads.0.weight              [40,24]   fp32 head      all_reduce     kept_back 0             int8
mtp_heads.1.weight              [40,24]   fp32 head      all_reduce     kept_back 0             int8
)"));
}

TEST(ParameterRows, TheScriptsQuirkTakesMultiTokenHeadsFromEveryOptimizer) {
  auto expected = lines_of(in_bf16(test::tiny_switches()));
  for (auto& line : expected) {
    const std::string usual = "head all_reduce kept_back";
    const auto at = line.find(usual);
    if (at != std::string::npos) line.replace(at, usual.size(), "none none kept_back");
  }
  EXPECT_EQ(lines_of(in_bf16(test::tiny_switches(), {.record_quirks = true})), expected);
}

TEST(ParameterRows, ASmearGateIsASmallControlTensorAndDrawsNothing) {
  auto without = test::tiny_record();
  without.gates.smear = SmearKind::off;
  auto rows = lines_of(in_bf16(test::tiny_gated_smear()));
  for (const char* row : {"smear_gate.weight [1,5] fp32 scalar all_reduce exported 0 keep",
                          "smear_lambda [1] fp32 scalar all_reduce exported 0 keep"})
    EXPECT_EQ(std::erase(rows, row), 1u) << row;
  EXPECT_EQ(rows, lines_of(in_bf16(without)));

  auto others = test::make_parameters(without, at::kFloat, at::kCPU);
  test::initialize(others, without, 1);
  auto gated = test::make_parameters(test::tiny_gated_smear(), at::kFloat, at::kCPU);
  test::initialize(gated, test::tiny_gated_smear(), 1);
  for (const auto& row : others.rows()) EXPECT_TRUE(at::equal(gated[row.name], row.value));
}

TEST(ParameterRows, TheSpreadOfATiedTableIsASetting) {
  const auto usual = lines_of(in_bf16(test::tiny_record()));
  const auto wide = lines_of(in_bf16(test::tiny_record(), {.tied_embed_init_std = 0.25}));
  ASSERT_EQ(wide.size(), usual.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const bool tokens = wide[i].rfind("tok_emb.weight", 0) == 0;
    EXPECT_EQ(wide[i] != usual[i], tokens) << wide[i];
    if (tokens) {
      EXPECT_NE(wide[i].find(" normal_0.25 "), std::string::npos) << wide[i];
    }
  }
}

}  // namespace
}  // namespace tg
