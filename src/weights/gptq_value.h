#pragma once
// Tensors of the last record's artifact as {"w": tensors, "m": kinds by name}, and back. In "w" an
// unquantised tensor has its name; one of GPTQ NAME.q int8 and NAME.scale fp16, and its correction
// NAME.lqA, .lqAs, .lqB, .lqBs, with _a behind each where it is asymmetric; a gate NAME.gq and
// NAME.gs.
#include <string>
#include <string_view>
#include <vector>

#include "weights/artifact_tensors.h"
#include "weights/write_artifact_gptq.h"

namespace tg {

// Such as "passthrough (float16)", "gate_int8_row", "gptq (int6)", "gptq (int7)+lqer_asym".
std::string kind_of(const GptqTensor& tensor);
// Of GPTQ's.
bool is_gptq_kind(std::string_view kind);

// Adds what it stores to the bytes in `stats`. Errors: internal (not finite in its dtype there).
PickleDict gptq_value(const std::vector<GptqTensor>& tensors, ArtifactStats& stats);

// By the kinds, of which no other artifact has any.
bool is_gptq_value(const PickleDict& all);
// The same of the first MiB of an archive, in which the kinds are.
bool begins_as_gptq(std::string_view archive);

// Errors: bad_data.
NamedTensors read_gptq(const PickleDict& all, ArtifactWeights weights, const std::string& path);

}  // namespace tg
