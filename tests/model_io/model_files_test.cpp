#include "model_io/model_files.h"

#include "base/error.h"
#include "tests/files/testing.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"
#include "weights/weights_file.h"

namespace tg {
namespace {

// With two multi-token heads.
Settings settings_with(const std::string& init_from = "") {
  auto settings = test::settings_of(test::tiny_switches());
  settings.runtime.init_from = init_from;
  return settings;
}

bool is_mtp_head(const std::string& name) {
  return name.rfind("mtp_heads.", 0) == 0;
}

class ModelFilesTest : public testing::Test {
 protected:
  ModelFilesTest() : trained(test::random_parameters(test::tiny_switches(), at::kFloat, 3)) {}

  void expect_trained(const ParameterTable& table, bool with_heads) const {
    const auto drawn = weights_of(settings_with());
    for (const auto& row : table.rows()) {
      const auto& expected = with_heads || !is_mtp_head(row.name) ? trained : drawn;
      EXPECT_TRUE(test::is_same(row.value.detach(), expected[row.name].detach())) << row.name;
    }
  }

  ParameterTable weights_of(const Settings& settings) const {
    return initial_weights(model_spec(settings), settings, {}, alone);
  }

  mutable Communicator alone;
  test::TempDir dir;
  ParameterTable trained;
};

TEST_F(ModelFilesTest, BothFilesHoldEveryParameterButTheMultiTokenHeads) {
  write_model(trained, {}, dir.path());
  for (const char* name : {"final_model.pt", "final_model.safetensors"}) {
    const auto stored = load_weights(dir / name).tensors;
    EXPECT_EQ(stored.size() + 2, trained.rows().size()) << name;
    for (const auto& [parameter, value] : stored) {
      EXPECT_FALSE(is_mtp_head(parameter)) << name;
      EXPECT_TRUE(test::is_same(value, trained[parameter].detach())) << name << " " << parameter;
    }
  }
}

TEST_F(ModelFilesTest, AnExportedModelLeavesTheMultiTokenHeadsAtTheirInitialWeights) {
  write_model(trained, {}, dir.path());
  const auto table = weights_of(settings_with(dir / "final_model.safetensors"));
  expect_trained(table, /*with_heads=*/false);
}

TEST_F(ModelFilesTest, AWholeModelBringsItsMultiTokenHeads) {
  save_safetensors(dir / "whole.safetensors", trained.named_values());
  const auto table = weights_of(settings_with(dir / "whole.safetensors"));
  expect_trained(table, /*with_heads=*/true);
}

TEST_F(ModelFilesTest, SomeOfTheMultiTokenHeadsAreNeitherOfTheTwo) {
  auto some = trained.named_values();
  some.pop_back();
  save_safetensors(dir / "some.safetensors", some);
  try {
    weights_of(settings_with(dir / "some.safetensors"));
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_data);
    EXPECT_NE(std::string(error.what()).find("missing mtp_heads.1.weight;"), std::string::npos)
        << error.what();
  }
}

TEST_F(ModelFilesTest, TheSettingsReachTheTable) {
  auto settings = settings_with();
  settings.model.tie_embeddings = true;
  settings.optim.tied_embed_init_std = 0.5;
  settings.averaging.control_tensor_name_patterns = {"qo_bank"};
  settings.runtime.record_quirks = true;
  const auto table = weights_of(settings);
  // From 960 draws: within 10 %.
  EXPECT_NEAR(table["tok_emb.weight"].detach().std().item<double>(), 0.5, 0.05);
  for (const auto& row : table.rows()) {
    if (row.name == "qo_bank") {
      EXPECT_EQ(row.update, Update::scalar);
    }
    if (is_mtp_head(row.name)) {
      EXPECT_EQ(row.update, Update::none);
    }
  }
}

}  // namespace
}  // namespace tg
