#pragma once
// Weights that other programs wrote: refuses what train_gpt cannot use, and renames what it can.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/byte_source.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Throws Error(bad_data) for a file that begins like GGUF, ONNX, HDF5 or another format without
// weights for train_gpt; the message names the format and says what to do. Throws Error(io).
void refuse_foreign_file(const ByteSource& source);

// Throws Error(bad_data) for weights with the names of another model, such as GPT-2; `path` is for
// the message.
void refuse_foreign_names(const NamedTensors& tensors, const std::string& path);

// Removes what module wrappers add to the names of weights: the components `_orig_mod`
// (torch.compile) and `module` (DistributedDataParallel) anywhere, then a leading `model`
// (transformers, and export). Returns the removed components, each once, as `_orig_mod.`; empty if
// there are none. Throws Error(bad_data), naming `path`, if two names become equal.
std::vector<std::string> unwrap_names(NamedTensors& tensors, const std::string& path);

// Sizes of a model of the GPT-124M script of 2024, from the shapes of its weights.
struct ScriptModel {
  std::int64_t layers = 0, channels = 0, hidden = 0, vocabulary = 0;
};

// Returns the sizes if `tensors` has the names of that script (transformer.h.0.attn.c_q.weight),
// else nullopt.
std::optional<ScriptModel> script_model(const NamedTensors& tensors);

// Renames the weights of that script to train_gpt's names. Scripts before 2024-11-06 have no
// lambdas: resid_mix becomes (1, 0) and value_blend 0, which have no effect. Returns whether the
// names were the script's.
bool rename_script_weights(NamedTensors& tensors);

}  // namespace tg
