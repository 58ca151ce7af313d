#include <ATen/ATen.h>
#include <fmt/format.h>

#include <string_view>

#include "recipes/gpt_spec.h"
#include "recipes/speedrun_43.h"

namespace tg::record_43 {

namespace {

// Offsets in the script's vector `scalars`.
constexpr std::int64_t kMixes = 2 * kFirstDecoder, kValueScales = kMixes + 2 * kBlocks,
                       kSmear = kValueScales + 2 * kBlocks, kBackoutLambda = kSmear + 1;

// Splits `scalars`, which may be padded to a multiple of the number of ranks.
void add_scalars(const at::Tensor& scalars, NamedTensors& into) {
  const auto add = [&](const std::string& name, std::int64_t at, std::int64_t count) {
    into.emplace_back(name, scalars.narrow(0, at, count));
  };
  add("skip_weights", 0, kBlocks - 1 - kFirstDecoder);
  for (std::int64_t i = 1; i < kBlocks; ++i) {
    add(fmt::format("blocks.{}.resid_mix", i), kMixes + 2 * i, 2);
    if (i == kWithoutAttention) continue;
    add(fmt::format("blocks.{}.attn.value_scale", i), kValueScales + 2 * i, 1);
    if (value_table(i) >= 0)
      add(fmt::format("blocks.{}.attn.ve_scale", i), kValueScales + 2 * i + 1, 1);
  }
  add("smear_lambda", kSmear, 1);
  into.emplace_back("backout_lambda", scalars[kBackoutLambda]);
}

// Splits [D, 4·D], which in memory is Q, K, V and O, [D, D] each.
void add_attention(const std::string& block, const at::Tensor& qkvo, NamedTensors& into) {
  const auto matrices = qkvo.contiguous().view({4, qkvo.size(0), qkvo.size(0)});
  std::int64_t i = 0;
  for (const auto* name : {"c_q", "c_k", "c_v", "proj"})
    into.emplace_back(fmt::format("{}attn.{}.weight", block, name), matrices[i++]);
}

bool add(const std::string& name, const at::Tensor& tensor, NamedTensors& into) {
  const auto block = name.substr(0, name.find('.', std::string_view("blocks.").size()) + 1);
  if (name == "scalars") {
    if (tensor.dim() != 1 || tensor.size(0) <= kBackoutLambda) return false;
    add_scalars(tensor, into);
  } else if (name.ends_with("attn.qkvo_w")) {
    if (tensor.dim() != 2 || tensor.size(1) != 4 * tensor.size(0)) return false;
    add_attention(block, tensor, into);
  } else if (name.ends_with("mlp.c_fc")) {
    if (tensor.dim() != 2) return false;
    into.emplace_back(block + "mlp.fc.weight", tensor.t());
  } else if (name.ends_with("mlp.c_proj")) {
    into.emplace_back(block + "mlp.proj.weight", tensor);
  } else {
    into.emplace_back(name == "embed.weight" ? kTokenTable : name, tensor);
  }
  return true;
}

}  // namespace

bool rename_script_weights(NamedTensors& tensors) {
  return rename_each(
      tensors, [](std::string_view name) { return name.ends_with("attn.qkvo_w"); }, add);
}

}  // namespace tg::record_43
