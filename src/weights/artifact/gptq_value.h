#pragma once
// Tensors of the last record's artifact as {"w": tensors, "m": kinds by name}. In "w" an
// unquantized tensor has its own name; a GPTQ matrix is NAME.q (int8) and NAME.scale (fp16); its
// low-rank correction is NAME.lqA, .lqAs, .lqB and .lqBs, with the suffix _a if asymmetric; a gate
// is NAME.gq and NAME.gs.
#include <string>
#include <string_view>
#include <vector>

#include "weights/artifact/artifact_tensors.h"

namespace tg {

// Returns "passthrough (float16)", "gate_int8_row", "gptq (int6)", "gptq (int7)+lqer_asym" or the
// like.
std::string kind_of(const GptqTensor& tensor);
// Returns whether the kind is GPTQ's.
bool is_gptq_kind(std::string_view kind);

// Adds the stored bytes to `stats`. Throws Error(internal) if a tensor is not finite in its stored
// dtype.
PickleDict gptq_value(const std::vector<GptqTensor>& tensors, ArtifactStats& stats);

// Recognizes the value by its kinds, which no other artifact has.
bool is_gptq_value(const PickleDict& all);
// Recognizes it by the first MiB of an archive, which contains the kinds.
bool begins_as_gptq(std::string_view archive);

// Throws Error(bad_data).
NamedTensors read_gptq(const PickleDict& all, ArtifactWeights weights, const std::string& path);

}  // namespace tg
