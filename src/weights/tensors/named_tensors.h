#pragma once
// Tensors with the names that checkpoints and model files give them, in the order of the file.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tg {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Returns the tensor of this name; null: there is none.
inline const at::Tensor* find_tensor(const NamedTensors& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensors::value_type::first);
  return found == tensors.end() ? nullptr : &found->second;
}

// Weights in a torch.save file: its dict of tensors, or a dict nested in it under "model",
// "state_dict" or "model_state_dict", possibly several levels deep.
struct StateDict {
  NamedTensors tensors;                           // in the file's order
  std::vector<std::string> under;                 // keys of the nested dicts, from the outside in
  std::vector<std::string> left_out;              // keys of other entries of these dicts
  std::map<std::string, std::string> metadata{};  // set for a single safetensors file
};

}  // namespace tg
