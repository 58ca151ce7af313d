#pragma once
// The last record's artifact (final_model.int6.ptz): tensors that GPTQ quantised, in any of three
// packings, which torch.load(weights_only=True) reads once unpacked.
#include <string>
#include <variant>
#include <vector>

#include "config/types/choices.h"
#include "ops/quantize/gptq.h"
#include "weights/write_artifact.h"

namespace tg {

// How a tensor is stored: as fp16, as int8 by rows (a gate's), or by GPTQ.
struct GptqTensor {
  std::string name;  // unbanked: blocks.0.attn.c_q.weight
  std::variant<at::Tensor, QuantizedWeight, GptqWeight> stored;
};

// The archive of {"w", "m"} (gptq_value.h) as .xz or in brotli (quality 11), or the container of
// pergroup.h, for which lrzip must be installed. Atomically. Errors: cannot_create, io; internal (a
// tensor is not finite in fp16); those of compress_lrzip().
ArtifactStats write_artifact_gptq(const std::vector<GptqTensor>& tensors, Compressor compressor,
                                  const std::string& path);

}  // namespace tg
