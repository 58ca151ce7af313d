// The tensors of the artifact as views of the parameters.
#include <map>

#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

struct Stored {
  std::vector<std::int64_t> shape;
  std::string how;  // the metadata of the Python script's own file
};
using State = std::map<std::string, Stored>;

// Untied, with a multi-token head, which is not in the file.
ModelConfig quantised_config() {
  ModelConfig c;
  c.num_layers = 2;
  c.model_dim = 192;
  c.num_heads = c.num_kv_heads = 3;
  c.tie_embeddings = false;
  c.mtp_num_heads = 1;
  c.bigram_vocab_size = 300;
  c.bigram_dim = 352;
  c.xsa_last_n = 1;
  c.ve_dim = 64;
  c.ve_layers = {0, 1};
  return c;
}

// What the Python script wrote of that model.
const State kPythons = {
    {"skip_weights", {{1, 192}, "passthrough"}},
    {"blocks.0.attn.c_q.weight", {{192, 192}, "passthrough"}},
    {"blocks.0.attn.proj.weight", {{192, 192}, "passthrough"}},
    {"blocks.1.attn.c_q.weight", {{192, 192}, "passthrough"}},
    {"blocks.1.attn.proj.weight", {{192, 192}, "passthrough"}},
    {"blocks.0.attn.c_k.weight", {{192, 192}, "passthrough"}},
    {"blocks.0.attn.c_v.weight", {{192, 192}, "passthrough"}},
    {"blocks.1.attn.c_k.weight", {{192, 192}, "passthrough"}},
    {"blocks.1.attn.c_v.weight", {{192, 192}, "passthrough"}},
    {"blocks.0.mlp.fc.weight", {{576, 192}, "int6"}},
    {"blocks.1.mlp.fc.weight", {{576, 192}, "int6"}},
    {"blocks.0.mlp.proj.weight", {{192, 576}, "int6"}},
    {"blocks.1.mlp.proj.weight", {{192, 576}, "int6"}},
    {"tok_emb.weight", {{1024, 192}, "int8"}},
    {"bigram.scale", {{}, "passthrough"}},
    {"bigram.embed.weight", {{300, 352}, "int8"}},
    {"bigram.proj.weight", {{192, 352}, "int6"}},
    {"smear.gate", {{192}, "passthrough"}},
    {"blocks.0.attn_scale", {{192}, "passthrough"}},
    {"blocks.0.mlp_scale", {{192}, "passthrough"}},
    {"blocks.0.resid_mix", {{2, 192}, "passthrough"}},
    {"blocks.0.attn.q_gain", {{3}, "passthrough"}},
    {"blocks.1.attn_scale", {{192}, "passthrough"}},
    {"blocks.1.mlp_scale", {{192}, "passthrough"}},
    {"blocks.1.resid_mix", {{2, 192}, "passthrough"}},
    {"blocks.1.attn.q_gain", {{3}, "passthrough"}},
    {"ve_shared.scale", {{}, "passthrough"}},
    {"ve_shared.embed.weight", {{1024, 64}, "passthrough"}},
    {"ve_shared.proj.weight", {{192, 64}, "passthrough"}},
    {"ve_layer_scales.0", {{1}, "passthrough"}},
    {"ve_layer_scales.1", {{1}, "passthrough"}},
    {"lm_head.weight", {{1024, 192}, "int8"}},
};

// Up to 65,536 elements the quantiser lets everything pass.
std::string stored_as(const ParameterPart& part) {
  if (part.value.numel() <= 65536) return "passthrough";
  if (part.quantization == Quantization::keep_fp32) return "passthrough_ctrl";
  return part.quantization == Quantization::int6 ? "int6" : "int8";
}

TEST(Unbanked, NamesShapesAndQuantisationEqualThePythonArtifacts) {
  const auto table = test::make_parameters(quantised_config(), at::kFloat, at::kMeta);
  const auto parts = unbanked(table);
  EXPECT_EQ(parts.size(), kPythons.size());
  for (const auto& part : parts) {
    const auto expected = kPythons.find(part.name);
    ASSERT_NE(expected, kPythons.end()) << part.name;
    EXPECT_EQ(part.value.sizes().vec(), expected->second.shape) << part.name;
    EXPECT_EQ(stored_as(part), expected->second.how) << part.name;
  }
}

TEST(Unbanked, TheMatricesOfABankAreThoseThatTheModelReads) {
  auto config = test::tiny_record();
  const auto table = test::make_parameters(config, at::kFloat, at::kCPU);
  std::map<std::string, at::Tensor> parts;
  for (const auto& part : unbanked(table)) parts.emplace(part.name, part.value);
  const auto expect_view = [&](const std::string& name, const char* bank, std::int64_t index) {
    ASSERT_TRUE(parts.contains(name)) << name;
    const auto matrix = table[bank].detach()[index];
    EXPECT_EQ(parts.at(name).data_ptr(), matrix.data_ptr()) << name;
    EXPECT_EQ(parts.at(name).sizes(), matrix.sizes()) << name;
    EXPECT_FALSE(parts.at(name).requires_grad()) << name;
  };
  const auto layers = config.num_layers;
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto block = "blocks." + std::to_string(i) + ".";
    expect_view(block + "attn.c_q.weight", "qo_bank", i);
    expect_view(block + "attn.proj.weight", "qo_bank", layers + i);
    expect_view(block + "attn.c_k.weight", "kv_bank", i);
    expect_view(block + "attn.c_v.weight", "kv_bank", layers + i);
    expect_view(block + "mlp.fc.weight", "mlp_up_bank", i);
    expect_view(block + "mlp.proj.weight", "mlp_down_bank", i);
  }
}

TEST(Unbanked, WritingToThePartsSetsEveryExportedElementOnce) {
  const auto table = test::make_parameters(test::tiny_switches(), at::kFloat, at::kCPU);
  for (const auto& row : table.rows()) row.value.detach().zero_();
  for (const auto& part : unbanked(table)) part.value.add_(1);
  for (const auto& row : table.rows()) {
    EXPECT_TRUE(row.value.detach().eq(row.exported ? 1 : 0).all().item<bool>()) << row.name;
  }
}

TEST(Unbanked, APatternKeepsWhatTheArtifactNamesLikeIt) {
  const auto kept = [](const std::vector<std::string>& patterns) {
    std::vector<std::string> names;
    const auto table = test::make_parameters(test::tiny_speedrun(), at::kFloat, at::kMeta,
                                             {.control_patterns = patterns});
    for (const auto& part : unbanked(table)) {
      if (part.quantization == Quantization::keep_fp32) names.push_back(part.name);
    }
    return names;
  };
  EXPECT_EQ(kept({"qo_bank", "1.attn.c_q", "tok_emb"}),
            (std::vector<std::string>{"blocks.1.attn.c_q.weight", "tok_emb.weight"}));
}

}  // namespace
}  // namespace tg
