#include <ATen/ATen.h>
#include <fmt/format.h>

#include <string_view>

#include "recipes/gpt_spec.h"
#include "recipes/speedrun_89.h"

namespace tg::record_89 {

namespace {

// Returns the index of a block among the blocks with attention.
constexpr std::int64_t attention_of(std::int64_t block) {
  return block < kWithoutAttention ? block : block - 1;
}

// Elements of the script's vector `scalars`, which may be padded to a multiple of the number of
// ranks.
constexpr std::int64_t kSmear = 2 * kBlocks, kSkip = kSmear + 1, kScalars = kSkip + 1;

using Shape = std::vector<std::int64_t>;

// Returns whether the tensor has this shape; 0: any size, and the first dimension may be padded.
bool fits(const at::Tensor& tensor, const Shape& shape) {
  if (tensor.dim() != std::ssize(shape) || tensor.size(0) < shape[0]) return false;
  for (std::int64_t i = 1; i < tensor.dim(); ++i) {
    const auto size = shape[static_cast<std::size_t>(i)];
    if (size != 0 && tensor.size(i) != size) return false;
  }
  return true;
}

void add_scalars(const at::Tensor& scalars, NamedTensors& into) {
  const auto add = [&](const std::string& name, std::int64_t at) {
    into.emplace_back(name, scalars.narrow(0, at, 1));
  };
  for (std::int64_t i = 0; i < kBlocks; ++i) {
    if (i == kWithoutAttention) continue;
    add(fmt::format("blocks.{}.attn.qkv_scale", i), 2 * i);
    add(fmt::format("blocks.{}.attn_scale", i), 2 * i + 1);
  }
  add("smear_lambda", kSmear);
  add("skip_lambda", kSkip);
}

// The attention of a block has two matrices of a bank, a first and a second kind, each in as many
// parts of consecutive rows as make two for each block with attention.
void add_attention(const at::Tensor& bank, const char* first, const char* second,
                   NamedTensors& into) {
  const auto matrices = bank.reshape({2 * (kBlocks - 1), -1, bank.size(-1)});
  for (std::int64_t i = 0; i < kBlocks; ++i) {
    if (i == kWithoutAttention) continue;
    const auto at = 2 * attention_of(i);
    into.emplace_back(fmt::format("blocks.{}.attn.{}.weight", i, first), matrices[at]);
    into.emplace_back(fmt::format("blocks.{}.attn.{}.weight", i, second), matrices[at + 1]);
  }
}

void add_mlp(const at::Tensor& bank, NamedTensors& into) {
  for (std::int64_t i = 0; i < kBlocks; ++i) {
    into.emplace_back(fmt::format("blocks.{}.mlp.fc.weight", i), bank[i][0]);
    into.emplace_back(fmt::format("blocks.{}.mlp.proj.weight", i), bank[i][1].t());
  }
}

bool add(const std::string& name, const at::Tensor& tensor, NamedTensors& into) {
  constexpr std::int64_t attentions = kBlocks - 1;
  if (name == "scalars") {
    if (!fits(tensor, {kScalars})) return false;
    add_scalars(tensor, into);
  } else if (name == "qk_bank") {
    if (!fits(tensor, {attentions * kHeads, 0, 0})) return false;
    add_attention(tensor.narrow(0, 0, attentions * kHeads), "c_q", "c_k", into);
  } else if (name == "vo_bank") {
    if (!fits(tensor, {2 * attentions, 0, 0}) || tensor.size(1) != tensor.size(2)) return false;
    add_attention(tensor.narrow(0, 0, 2 * attentions), "c_v", "proj", into);
  } else if (name == "mlp_bank") {
    if (!fits(tensor, {kBlocks, 2, 0, 0})) return false;
    add_mlp(tensor, into);
  } else if (name == "embed.weight") {
    into.emplace_back(kTokenTable, tensor);
  } else if (name == kHead) {
    if (tensor.dim() != 2) return false;
    into.emplace_back(kHead, tensor.t());
  } else if (name == "_mudd_gate_scale") {
    into.emplace_back("mudd_gate_scale", tensor);
  } else if (!name.starts_with("_mlp_") && !name.starts_with("_attn_")) {  // scales of FP8 GEMMs
    into.emplace_back(name, tensor);
  }
  return true;
}

}  // namespace

bool rename_script_weights(NamedTensors& tensors) {
  return rename_each(
      tensors, [](std::string_view name) { return name == "mlp_bank"; }, add);
}

}  // namespace tg::record_89
