#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "config/resolved.h"
#include "files/json_file.h"
#include "tests/files/testing.h"
#include "weights/pickle/torch_file.h"
#include "weights/safetensors/safetensors.h"

namespace tg::test {
namespace {

NamedTensors some_tensors() {
  return {{"weight", at::tensor({3.0, -4.0, 0.0, 0.0}, at::kFloat).reshape({2, 2})},
          {"half", at::full({3}, 0.5, at::kHalf)},
          {"scalar", at::scalar_tensor(-7, at::kLong)},
          {"empty", at::empty({0, 4}, at::kFloat)}};
}

constexpr const char* expected_tables =
    "name    dtype  shape   elements  bytes  min  max  rms\n"
    "weight  F32    [2, 2]         4     16   -4    3  2.5\n"
    "half    F16    [3]            3      6  0.5  0.5  0.5\n"
    "scalar  I64    []             1      8   -7   -7    7\n"
    "empty   F32    [0, 4]         0      0    -    -    -\n"
    "\n"
    "dtype  tensors  elements  bytes\n"
    "F16          1         3      6\n"
    "F32          2         4     16\n"
    "I64          1         1      8\n"
    "all          4         8     30\n";

TEST(Inspect, PrintsTheTensorsOfBothFormats) {
  const TempDir folder;
  save_safetensors(folder / "w.safetensors", some_tensors());
  EXPECT_EQ(inspect_text(folder / "w.safetensors"),
            folder / "w.safetensors" + ": safetensors\n\n" + expected_tables);
  save_torch(folder / "w.pt", some_tensors());
  EXPECT_EQ(inspect_text(folder / "w.pt"), folder / "w.pt" + ": torch.save\n\n" + expected_tables);
}

TEST(Inspect, CountsElementsThatAreNotFinite) {
  const TempDir folder;
  // More elements than are converted at once; the last ones must be included.
  at::Tensor many = at::ones({(1 << 20) + 2}, at::kBFloat16);
  many[0] = NAN;
  many[1 << 20] = -INFINITY;
  many[(1 << 20) + 1] = 3;
  save_safetensors(folder / "w",
                   {{"many", many}, {"none", at::full({2}, NAN)}, {"a", at::ones(1)}});
  const auto text = inspect_text(folder / "w");
  for (const std::string part : {"rms  nonfinite\n", "  1    3    1          2\n",
                                 "  -    -    -          2\n", "  1    1    1          0\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Inspect, EscapesControlCharactersOfNames) {
  const TempDir folder;
  save_safetensors(folder / "w", {{"a\x1b[2J", at::ones(1)}});
  EXPECT_NE(inspect_text(folder / "w").find("\na\\x1b[2J  F32"), std::string::npos);
}

std::string settings_part(const std::string& text) {
  const auto begin = text.find("config");
  return begin == std::string::npos ? "" : text.substr(begin);
}

TEST(Inspect, PrintsTheSettingsOfTheRun) {
  const TempDir folder;
  Settings settings;
  settings.model.num_layers = 4;
  settings.data.data_path = "a\x1b b";
  for (const char* name : {"final_model.pt", "final_model.2.pt"})
    save_torch(folder / name, some_tensors());
  write_json_file(folder / "config.json", settings_json(settings, {}));
  write_json_file(folder / "config.2.json", settings_json(Settings(), {}));
  EXPECT_EQ(settings_part(inspect_text(folder / "final_model.pt")),
            "config.json: settings that are not at their defaults\n"
            "  DATA_PATH=\"a\\x1b b\"\n"
            "  NUM_LAYERS=4\n");
  // A former run's model, renamed with a number together with its config.
  EXPECT_EQ(settings_part(inspect_text(folder / "final_model.2.pt")),
            "config.2.json: every setting at its default\n");
}

TEST(Inspect, NamesAConfigThatIsNoRuns) {
  const TempDir folder;
  save_safetensors(folder / "w.safetensors", some_tensors());
  for (const std::string config : {"{\"hidden_size\": 768}", "not json", "[1]", ""}) {
    write_file(folder / "config.json", config);
    EXPECT_EQ(settings_part(inspect_text(folder / "w.safetensors")),
              "config.json: not the config.json of a run\n")
        << config;
  }
}

TEST(Inspect, OfAnArtifactWantsTheConfigOfTheModelsRun) {
  const TempDir folder;
  save_safetensors(folder / "w.safetensors", some_tensors());
  const auto inspect = [&] {
    inspect_text(folder / "w.safetensors", {.quantization = true, .artifact = folder / "w.ptz"});
  };
  expect_error(inspect, ExitCode::missing_input, "config.json, found none");
  write_file(folder / "config.json", "{\"hidden_size\": 768}");
  expect_error(inspect, ExitCode::config, "found something else");
}

TEST(Inspect, FailsAsTheReadersDo) {
  const TempDir folder;
  expect_error([&] { inspect_text(folder / "none"); }, ExitCode::missing_input, "none");
  write_file(folder / "w", "neither of the two formats");
  expect_error([&] { inspect_text(folder / "w"); }, ExitCode::bad_data, "safetensors");
}

}  // namespace
}  // namespace tg::test
