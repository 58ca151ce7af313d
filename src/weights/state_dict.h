#pragma once
#include <map>
#include <string>
#include <vector>

#include "weights/named_tensors.h"

namespace tg {

// The weights in a file of torch.save: its dict of tensors, or the one in it under "model",
// "state_dict" or "model_state_dict", or under one of these in another.
struct StateDict {
  NamedTensors tensors;               // in its order
  std::vector<std::string> under;     // the keys that lead to it
  std::vector<std::string> left_out;  // keys on the way and in it of what is no part of it
  std::map<std::string, std::string> metadata{};  // of safetensors in one file
};

}  // namespace tg
