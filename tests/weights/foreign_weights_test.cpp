#include "weights/foreign_weights.h"

#include <fmt/format.h>

#include "tests/files/testing.h"
#include "tests/weights/tensor_testing.h"
#include "weights/weights_file.h"

namespace tg::test {
namespace {

TEST(ForeignFiles, AreRefusedByTheirKind) {
  using namespace std::string_literals;
  const TempDir folder;
  const struct {
    std::string bytes, name;
  } cases[] = {
      {"GGUF\3\0\0\0"s + std::string(16, '\0'), "a GGUF file, llama.cpp's"},
      {"\x08\x08\x12\x07pytorch", "an ONNX model"},
      {"\x08\x07\x12\x04tf2onnx", "an ONNX model"},
      {"\x89HDF\r\n\x1a\n" + std::string(64, '\0'), "an HDF5 file, as Keras writes"},
      {"\xc6\xd7\x34\x01\3\0\0\0"s + std::string(1016, '\0'), "llm.c's model"},
      {"\x88\xd8\x34\x01\1\0\0\0"s + std::string(1016, '\0'), "a token shard"},
      {"\x93NUMPY\1\0"s, "a NumPy array"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n", "a Git LFS pointer"},
      {"<!DOCTYPE html><html></html>", "a web page"},
      {"\x80\x04\x95\x10\0\0\0"s, "a bare pickle"},
      {"\x1f\x8b\x08\0\0\0\0\0"s, "gzip data"},
  };
  const auto path = folder / "model.bin";
  for (const auto& [bytes, name] : cases) {
    write_file(path, bytes);
    expect_error([&] { load_weights(path); }, ExitCode::bad_data, path + " is " + name);
  }
}

TEST(ForeignNames, AreRefusedByTheModelThatHasThem) {
  const auto refuse = [](const std::string& name) {
    refuse_foreign_names({{"tok_emb.weight", at::ones({2})}, {name, at::ones({2})}}, "w.pt");
  };
  refuse("blocks.0.attn.c_q.weight");
  refuse("transformer.h.0.attn.c_q.weight");
  for (const auto& [name, model] :
       {std::pair{"transformer.h.0.attn.c_attn.weight", "GPT-2 or nanoGPT"},
        {"h.0.attn.c_attn.weight", "GPT-2 or nanoGPT"},
        {"layers.0.self_attn.q_proj.weight", "a Llama-like model of transformers"}}) {
    expect_error(
        [&, &of_model = name] { refuse(of_model); }, ExitCode::bad_data,
        fmt::format(
            "w.pt has the weights of {} (expected a model of train_gpt, found the name '{}')",
            model, name));
  }
}

}  // namespace
}  // namespace tg::test
