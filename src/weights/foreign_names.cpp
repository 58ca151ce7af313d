#include "weights/foreign_names.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/escaped.h"
#include "base/is_in.h"

namespace tg {
namespace {

constexpr std::string_view kAnywhere[] = {"_orig_mod.", "module."};
constexpr std::string_view kInFront = "model.";

class Unwrapper {
 public:
  std::string operator()(std::string_view name) {
    std::string rest;
    while (!name.empty()) {
      const auto part =
          name.substr(0, name.find('.') == name.npos ? name.npos : name.find('.') + 1);
      name.remove_prefix(part.size());
      const bool wraps = is_in(kAnywhere, part) || (rest.empty() && part == kInFront);
      if (wraps)
        note(part);
      else
        rest += part;
    }
    return rest;
  }
  std::vector<std::string> taken_off() && { return std::move(taken_off_); }

 private:
  void note(std::string_view part) {
    if (!is_in(taken_off_, part)) taken_off_.emplace_back(part);
  }

  std::vector<std::string> taken_off_;
};

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

const at::Tensor* find(const NamedTensors& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensors::value_type::first);
  return found == tensors.end() ? nullptr : &found->second;
}

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

std::vector<std::string> unwrap_names(NamedTensors& tensors, const std::string& path) {
  Unwrapper unwrap;
  std::unordered_map<std::string, std::string> wrapped;  // by unwrapped name
  for (auto& [name, tensor] : tensors) {
    auto bare = unwrap(name);
    const auto [other, is_new] = wrapped.emplace(bare, name);
    REQUIRE(is_new, ExitCode::bad_data,
            "{}: has the weight '{}' twice, as '{}' and as '{}'; save one of them", path,
            escaped(bare), escaped(other->second), escaped(name));
    name = std::move(bare);
  }
  return std::move(unwrap).taken_off();
}

std::optional<ScriptModel> script_model(const NamedTensors& tensors) {
  const auto* const table = find(tensors, kTable);
  const auto* const up = find(tensors, "transformer.h.0.mlp.c_fc.weight");
  if (!find(tensors, "transformer.h.0.attn.c_q.weight") || !table || table->dim() != 2 || !up ||
      up->dim() != 2)
    return {};
  ScriptModel model{
      .channels = table->size(1), .hidden = up->size(0), .vocabulary = table->size(0)};
  while (find(tensors, fmt::format("{}{}.attn.c_q.weight", kBlock, model.layers))) ++model.layers;
  return model;
}

bool rename_script_weights(NamedTensors& tensors) {
  const auto model = script_model(tensors);
  if (!model) return false;
  std::erase_if(tensors, [](const auto& entry) { return entry.first.ends_with(kBuffer); });
  for (auto& [name, tensor] : tensors) name = ours(name);
  for (std::int64_t i = 0; i < model->layers; ++i) {
    const auto block = fmt::format("blocks.{}.", i);
    if (!find(tensors, block + "resid_mix"))
      tensors.emplace_back(block + "resid_mix", at::eye(2).select(0, 0).clone());
    if (!find(tensors, block + "attn.value_blend"))
      tensors.emplace_back(block + "attn.value_blend", at::zeros({}));
  }
  return true;
}

}  // namespace tg
