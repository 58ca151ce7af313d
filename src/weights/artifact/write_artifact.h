#pragma once
// Quantized weights that a run submits, in the formats of the Python scripts, which
// torch.load(weights_only=True) reads once decompressed.
#include <string>
#include <variant>
#include <vector>

#include "config/types/choices.h"
#include "ops/quantize/gptq.h"
#include "ops/quantize/quantize.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Elements of a tensor that an int6 or int8 artifact keeps unquantized.
constexpr int64_t kMaxUnquantized = 65536;

struct ArtifactTensor {
  std::string name;           // per layer, unbanked: blocks.0.attn.c_q.weight
  at::Tensor tensor;          // floating point, finite, on any device; int6: a matrix
  Quantization quantization;  // in an int6 artifact, if it has more than 65,536 elements
};

struct ArtifactStats {
  size_t file_bytes = 0;
  size_t torch_bytes = 0;    // the torch.save archive before compression
  size_t payload_bytes = 0;  // all tensors in the archive
  size_t weight_bytes = 0;   // all tensors before quantization
  double quantize_ms = 0;    // including the copy from the device
  double serialize_ms = 0, compress_ms = 0, write_ms = 0;
};

// Writes final_model.int6.ptz: .xz of {"w": tensors, "m": metadata}. Tensors of up to 65,536
// elements are fp16 ("passthrough"), larger control tensors fp32 ("passthrough_ctrl"), all others
// NAME.q int8 and NAME.scale ({"type": "int6"|"int8"}), computed by ops/quantize. Atomic. Throws
// Error(cannot_create), Error(io), and Error(internal) if a weight is not finite in fp16.
ArtifactStats write_artifact_int6(const std::vector<ArtifactTensor>& tensors,
                                  const std::string& path);

// Writes final_model.int8.ptz: zlib of the baseline's "int8_clean_per_row_v1". Tensors of up to
// 65,536 elements are fp32 if the name contains one of `keep_fp32`
// (INT8_KEEP_FLOAT_FP32_NAME_PATTERNS), else fp16; larger tensors are int8 with scales. Ignores
// `quantization`. Atomic. Throws what write_artifact_int6() throws.
ArtifactStats write_artifact_int8_zlib(const std::vector<ArtifactTensor>& tensors,
                                       const std::vector<std::string>& keep_fp32,
                                       const std::string& path);

// Tensor of the last record's artifact, as stored: fp16, int8 per row (for gates), or GPTQ.
struct GptqTensor {
  std::string name;  // per layer, unbanked: blocks.0.attn.c_q.weight
  std::variant<at::Tensor, QuantizedWeight, GptqWeight> stored;
};

// Writes the last record's final_model.int6.ptz: the archive of {"w", "m"} (gptq_value.h) as .xz or
// brotli (quality 11), or the container of pergroup.h, for which lrzip must be installed. Atomic.
// Throws Error(cannot_create), Error(io), Error(internal) if a tensor is not finite in fp16, and
// what compress_lrzip() throws.
ArtifactStats write_artifact_gptq(const std::vector<GptqTensor>& tensors, Compressor compressor,
                                  const std::string& path);

}  // namespace tg
