#include "weights/foreign_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/escaped.h"
#include "base/is_in.h"
#include "files/magic.h"

namespace tg {
namespace {

using namespace std::string_view_literals;

constexpr const char* kMadeFrom =
    "give the safetensors or torch.save file of train_gpt that it was made from";
constexpr const char* kOwnModels =
    "train_gpt reads its own models and models of the GPT-124M script of 2024; train one, or use "
    "this model with the program that made it";
constexpr const char* kShard = "give its folder as DATA_PATH, and a model here";
constexpr const char* kUnpack = "unpack it, and give what is inside";

struct Kind {
  Magic magic;
  const char* name;
  const char* advice;
};

constexpr Kind kKinds[] = {
    {"GGUF"sv, 0, "a GGUF file, llama.cpp's", kMadeFrom},
    {"lmgg"sv, 0, "a GGML file, llama.cpp's", kMadeFrom},
    {"fmgg"sv, 0, "a GGML file, llama.cpp's", kMadeFrom},
    {"tjgg"sv, 0, "a GGML file, llama.cpp's", kMadeFrom},
    {"\x89HDF\r\n\x1a\n"sv, 0, "an HDF5 file, as Keras writes", kOwnModels},
    {"TFL3"sv, 4, "a TensorFlow Lite model", kOwnModels},
    {"\x08\x01\x12"sv, 0, "a TensorFlow SavedModel", kOwnModels},
    {"\x93NUMPY"sv, 0, "a NumPy array",
     "load it in Python and save a dict of tensors with torch.save"},
    {"\xc6\xd7\x34\x01"sv, 0, "llm.c's model", kOwnModels},            // 20240326
    {"\xc7\xd7\x34\x01"sv, 0, "llm.c's optimizer state", kOwnModels},  // 20240327
    {"\x88\xd8\x34\x01"sv, 0, "a token shard", kShard},                // data/shard_header.h
    {"\xa1\xd9\x34\x01"sv, 0, "a token shard", kShard},
    {"version https://git-lfs"sv, 0, "a Git LFS pointer, not the file that it stands for",
     "fetch that with git lfs pull"},
    {"<!DOCTYPE"sv, 0, "a web page", "download the file itself"},
    {"<!doctype"sv, 0, "a web page", "download the file itself"},
    {"<html"sv, 0, "a web page", "download the file itself"},
    {"\x1f\x8b"sv, 0, "gzip data", kUnpack},
    {"ustar"sv, 257, "a tar archive", kUnpack},
};

// Detects a protobuf without magic number: the format version, then the producer or the graph.
bool is_onnx(std::string_view head) {
  constexpr std::string_view kTags = "\x12\x1a\x22\x32\x3a\x42";
  return head.size() > 2 && head[0] == '\x08' && head[1] > 1 && head[1] <= '\x20' &&
         kTags.find(head[2]) != std::string_view::npos;
}

// Detects a bare pickle, outside a zip archive, except for torch.save's legacy format, which its
// reader rejects.
bool is_pickle(std::string_view head) {
  return head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5 &&
         !head.substr(2).starts_with("\x8a\x0a");
}

[[noreturn]] void refuse(const std::string& path, std::string_view name, std::string_view advice) {
  fail(ExitCode::bad_data, "{} is {} (expected a model in safetensors or torch.save's format); {}",
       path, name, advice);
}

struct Names {
  std::string_view part;
  const char* model;
};
constexpr Names kNames[] = {
    {"attn.c_attn.weight", "GPT-2 or nanoGPT"},
    {"self_attn.q_proj.weight", "a Llama-like model of transformers"},
    {"self_attn.qkv_proj.weight", "a Phi-like model of transformers"},
    {"attention.query_key_value.weight", "GPT-NeoX or a model like it"},
    {"attention.wq.weight", "Llama or a model like it"},
    {"attention.self.query.weight", "BERT or a model like it"},
    {"SelfAttention.q.weight", "T5 or a model like it"},
    {"attn.q_proj.weight", "GPT-J, GPT-Neo or a model like it"},
    {"mixer.in_proj.weight", "Mamba or a model like it"},
};

constexpr std::string_view kAnywhere[] = {"_orig_mod.", "module."};
constexpr std::string_view kInFront = "model.";

// Returns the name without wrappers' components, which are added to `taken_off`, each once.
std::string unwrapped(std::string_view name, std::vector<std::string>& taken_off) {
  std::string rest;
  while (!name.empty()) {
    const auto part = name.substr(0, std::min(name.find('.'), name.size() - 1) + 1);
    name.remove_prefix(part.size());
    const bool wraps = is_in(kAnywhere, part) || (rest.empty() && part == kInFront);
    if (!wraps)
      rest += part;
    else if (!is_in(taken_off, part))
      taken_off.emplace_back(part);
  }
  return rest;
}

constexpr std::string_view kTable = "transformer.wte.weight", kBlock = "transformer.h.",
                           kBuffer = "rotary.inv_freq";

constexpr struct {
  std::string_view theirs, ours;
} kParts[] = {
    {"attn.c_q.weight", "attn.c_q.weight"}, {"attn.c_k.weight", "attn.c_k.weight"},
    {"attn.c_v.weight", "attn.c_v.weight"}, {"attn.c_proj.weight", "attn.proj.weight"},
    {"mlp.c_fc.weight", "mlp.fc.weight"},   {"mlp.c_proj.weight", "mlp.proj.weight"},
    {"attn.lamb", "attn.value_blend"},      {"lambdas", "resid_mix"},
};

std::string ours(std::string_view name) {
  if (name == kTable) return "tok_emb.weight";
  if (!name.starts_with(kBlock)) return std::string(name);
  const auto rest = name.substr(kBlock.size());
  const auto dot = std::min(rest.find('.'), rest.size() - 1);
  const auto* const part = std::ranges::find_if(
      kParts, [&](const auto& one) { return one.theirs == rest.substr(dot + 1); });
  if (part == std::end(kParts)) return std::string(name);
  return fmt::format("blocks.{}.{}", rest.substr(0, dot), part->ours);
}

}  // namespace

void refuse_foreign_file(const ByteSource& source) {
  constexpr std::uint64_t kHead = 512;
  const auto size = std::min(kHead, source.size());
  const std::string bytes = source.read(0, size);
  const std::string_view head = bytes;
  // A safetensors header: after its length its JSON begins, as in no other of these formats.
  constexpr std::size_t kLength = 8;
  if (head.size() > kLength && head[kLength] == '{') return;
  for (const auto& kind : kKinds)
    if (kind.magic.is_in(head)) refuse(source.name(), kind.name, kind.advice);
  if (is_onnx(head)) refuse(source.name(), "an ONNX model", kMadeFrom);
  if (is_pickle(head)) {
    refuse(source.name(), "a bare pickle, which could execute anything",
           "load it in Python and save its state_dict() with torch.save");
  }
}

void refuse_foreign_names(const NamedTensors& tensors, const std::string& path) {
  for (const auto& [name, tensor] : tensors) {
    const auto* const found = std::ranges::find_if(
        kNames, [&, &text = name](const Names& one) { return text.ends_with(one.part); });
    if (found == std::end(kNames)) continue;
    fail(ExitCode::bad_data,
         "{} has the weights of {} (expected a model of train_gpt, found the name '{}'); {}", path,
         found->model, escaped(name), kOwnModels);
  }
}

std::vector<std::string> unwrap_names(NamedTensors& tensors, const std::string& path) {
  std::vector<std::string> taken_off;
  std::unordered_map<std::string, std::string> wrapped;  // by unwrapped name
  for (auto& [name, tensor] : tensors) {
    auto bare = unwrapped(name, taken_off);
    const auto [other, is_new] = wrapped.emplace(bare, name);
    REQUIRE(is_new, ExitCode::bad_data,
            "{}: has the weight '{}' twice, as '{}' and as '{}'; save one of them", path,
            escaped(bare), escaped(other->second), escaped(name));
    name = std::move(bare);
  }
  return taken_off;
}

std::optional<ScriptModel> script_model(const NamedTensors& tensors) {
  const auto* const table = find_tensor(tensors, kTable);
  const auto* const up = find_tensor(tensors, "transformer.h.0.mlp.c_fc.weight");
  if (!find_tensor(tensors, "transformer.h.0.attn.c_q.weight") || !table || table->dim() != 2 ||
      !up || up->dim() != 2)
    return {};
  ScriptModel model{
      .channels = table->size(1), .hidden = up->size(0), .vocabulary = table->size(0)};
  while (find_tensor(tensors, fmt::format("{}{}.attn.c_q.weight", kBlock, model.layers)))
    ++model.layers;
  return model;
}

bool rename_script_weights(NamedTensors& tensors) {
  const auto model = script_model(tensors);
  if (!model) return false;
  std::erase_if(tensors, [](const auto& entry) { return entry.first.ends_with(kBuffer); });
  for (auto& [name, tensor] : tensors) name = ours(name);
  for (std::int64_t i = 0; i < model->layers; ++i) {
    const auto block = fmt::format("blocks.{}.", i);
    if (!find_tensor(tensors, block + "resid_mix"))
      tensors.emplace_back(block + "resid_mix", at::eye(2).select(0, 0).clone());
    if (!find_tensor(tensors, block + "attn.value_blend"))
      tensors.emplace_back(block + "attn.value_blend", at::zeros({}));
  }
  return true;
}

}  // namespace tg
