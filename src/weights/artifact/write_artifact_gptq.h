#pragma once
// Artifact of the last record (final_model.int6.ptz): tensors quantized by GPTQ, in one of three
// containers, which torch.load(weights_only=True) reads once decompressed.
#include <string>
#include <variant>
#include <vector>

#include "config/types/choices.h"
#include "ops/quantize/gptq.h"
#include "weights/artifact/write_artifact.h"

namespace tg {

// Stored tensor: fp16, int8 per row (for gates), or GPTQ.
struct GptqTensor {
  std::string name;  // per layer, unbanked: blocks.0.attn.c_q.weight
  std::variant<at::Tensor, QuantizedWeight, GptqWeight> stored;
};

// Writes the archive of {"w", "m"} (gptq_value.h) as .xz or brotli (quality 11), or the container
// of pergroup.h, for which lrzip must be installed. Atomic. Throws Error(cannot_create), Error(io),
// Error(internal) if a tensor is not finite in fp16, and what compress_lrzip() throws.
ArtifactStats write_artifact_gptq(const std::vector<GptqTensor>& tensors, Compressor compressor,
                                  const std::string& path);

}  // namespace tg
