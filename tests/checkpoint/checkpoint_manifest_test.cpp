#include "checkpoint/checkpoint_manifest.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/files/testing.h"
#include "tests/weights/tensor_testing.h"
#include "weights/safetensors/safetensors.h"

namespace tg::test {
namespace {

using nlohmann::json;

constexpr const char *kFirst = "rank-00000.safetensors", *kSecond = "rank-00001.safetensors";

const ModelRecord kModel{.recipe = "last_record", .stage = 1, .qat = true, .step = 100};

class CheckpointManifest : public testing::Test {
 protected:
  CheckpointManifest() {
    Manifest manifest{.step = 100,
                      .world_size = 2,
                      .program = "train_gpt 1",
                      .model = kModel,
                      .settings = {{"MODEL_DIM", "32"}, {"RUN_ID", "\"\n\xe2\x82\xac"}}};
    manifest.files = {{kFirst, save_safetensors(folder_ / kFirst, {{"a", at::ones({3})}})},
                      {kSecond, save_safetensors(folder_ / kSecond, {{"b", at::zeros({0})}})}};
    write_manifest(folder_.path(), manifest);
    text_ = read_file(path_);
  }

  // Expects the manifest to be refused after a change to its JSON, with this part in the message.
  void expect_refused(const std::function<void(json&)>& change, const std::string& part) {
    json value = json::parse(text_);
    change(value);
    write_file(path_, value.dump());
    expect_error([&] { read_manifest(folder_.path()); }, ExitCode::bad_data, part);
  }

  const TempDir folder_;
  const std::string path_ = folder_ / "manifest.json";
  std::string text_;
};

TEST_F(CheckpointManifest, ReadsWhatWasWritten) {
  const auto manifest = read_manifest(folder_.path());
  EXPECT_EQ(manifest.step, 100);
  EXPECT_EQ(manifest.world_size, 2);
  EXPECT_EQ(manifest.program, "train_gpt 1");
  EXPECT_EQ(manifest.settings.at("RUN_ID"), "\"\n\xe2\x82\xac");
  EXPECT_EQ(manifest.settings.size(), 2u);
  EXPECT_EQ(manifest.model, kModel);
  ASSERT_EQ(manifest.files.size(), 2u);
  EXPECT_EQ(manifest.files[0].name, kFirst);
  EXPECT_EQ(manifest.files[0].digest.bytes, read_file(folder_ / kFirst).size());
}

TEST_F(CheckpointManifest, OneOfAnOlderProgramHasNoRecordOfItsModel) {
  json value = json::parse(text_);
  value.erase("model");
  write_file(path_, value.dump());
  EXPECT_EQ(read_manifest(folder_.path()).model, std::nullopt);
}

TEST_F(CheckpointManifest, AMissingOneIsMissingInput) {
  for (const auto& folder : {folder_ / "none", folder_ / kFirst})
    expect_error([&] { read_manifest(folder); }, ExitCode::missing_input, "expected a checkpoint");
  std::filesystem::remove(path_);
  expect_error([&] { read_manifest(folder_.path()); }, ExitCode::missing_input, folder_.path());
}

TEST_F(CheckpointManifest, UnknownFieldsAreTolerated) {
  json value = json::parse(text_);
  value["later"] = {{"deeper", {1, 2}}};
  value["files"][0]["mtime"] = 1.5;
  write_file(path_, value.dump());
  EXPECT_EQ(read_manifest(folder_.path()).files.size(), 2u);
}

TEST_F(CheckpointManifest, ForeignFormatsAndTypesAreRefused) {
  expect_refused([](json& m) { m["format"] = 2; }, "\"format\": expected 1");
  expect_refused([](json& m) { m["format"] = "1"; }, "\"format\"");
  expect_refused([](json& m) { m = json::array({m}); }, "expected a JSON object");
  expect_refused([](json& m) { m["step"] = -1; },
                 "\"step\": expected a count below 2^63, found -1");
  expect_refused([](json& m) { m["step"] = 1.0; }, "found 1.0");
  expect_refused([](json& m) { m["step"] = UINT64_MAX; }, "found 18446744073709551615");
  expect_refused([](json& m) { m["world_size"] = 0; }, "\"world_size\": expected at least 1");
  expect_refused([](json& m) { m["program"] = nullptr; }, "\"program\": expected a string");
  expect_refused([](json& m) { m["settings"] = 1; }, "\"settings\": expected a JSON object");
  expect_refused([](json& m) { m["settings"]["SEED"] = 1; }, "\"SEED\": expected a string");
  expect_refused([](json& m) { m["model"] = 1; }, "\"model\": expected a JSON object");
  expect_refused([](json& m) { m["model"]["stage"] = -1; }, "\"stage\": expected a count");
  expect_refused([](json& m) { m["model"]["qat"] = 1; }, "\"qat\": expected true or false");
  expect_refused([](json& m) { m["model"].erase("recipe"); }, "\"recipe\"");
  expect_refused([](json& m) { m["files"] = json::object(); }, "\"files\": expected a list");
  expect_refused([](json& m) { m["files"][0] = 1; }, "a file: expected a JSON object");
  expect_refused([](json& m) { m["files"][0]["bytes"] = -1; }, "\"bytes\"");
  expect_refused([](json& m) { m["files"][1]["name"] = kFirst; }, "found it twice");
  for (const char* field : {"format", "step", "world_size", "program", "settings", "files"})
    expect_refused([&](json& m) { m.erase(field); }, std::string("field \"") + field + "\"");
  for (const char* field : {"name", "bytes", "xxh3"})
    expect_refused([&](json& m) { m["files"][0].erase(field); }, std::string("\"") + field + "\"");
  for (const char* digits :
       {"", "12", "0x34567890123456", "-123456789012345", "123456789012345g", "12345678901234567"})
    expect_refused([&](json& m) { m["files"][0]["xxh3"] = digits; }, "16 hexadecimal digits");
}

TEST_F(CheckpointManifest, NamesWithAPathAreRefused) {
  for (const std::string& name :
       {std::string("../x"), std::string("/etc/passwd"), std::string("a/b"), std::string(".."),
        std::string("."), std::string(), std::string(".hidden"), std::string("a\0b", 3),
        std::string("a\nb"), std::string("a\\b"), std::string("a\xff"), std::string(256, 'a')}) {
    json value = json::parse(text_);
    value["files"][0]["name"] = name;
    write_file(path_, value.dump(-1, ' ', false, json::error_handler_t::replace));
    expect_error([&] { read_manifest(folder_.path()); }, ExitCode::bad_data, "a plain file name");
  }
}

TEST_F(CheckpointManifest, HugeAndDeepOnesAreRefused) {
  write_file(path_, std::string((1 << 20) + 1, ' '));
  expect_error([&] { read_manifest(folder_.path()); }, ExitCode::bad_data, "at most 1048576 bytes");
  const size_t deep = 500'000;
  for (const std::string& brackets :
       {std::string(deep, '['), std::string(deep, '[') + std::string(deep, ']')}) {
    write_file(path_, brackets);
    expect_error([&] { read_manifest(folder_.path()); }, ExitCode::bad_data, "found more");
  }
}

TEST_F(CheckpointManifest, ChangedBytesReadOrAreRefused) {
  std::mt19937 random(1337);
  int read = 0, refused = 0;
  for (int i = 0; i < 1000; ++i) {
    auto bytes = text_;
    for (auto changes = 1 + random() % 3; changes > 0 && !bytes.empty(); --changes) {
      const size_t at = random() % bytes.size();
      if (random() % 4 == 0)
        bytes.erase(at, random() % 9);
      else if (random() % 4 == 0)
        bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 9));
      else
        bytes[at] = static_cast<char>(random());
    }
    write_file(path_, bytes);
    try {
      for (const auto& file : read_manifest(folder_.path()).files) {
        EXPECT_EQ(file.name.find('/'), std::string::npos);
      }
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::bad_data) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace tg::test
