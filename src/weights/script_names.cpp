#include "weights/script_names.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace tg {
namespace {

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
