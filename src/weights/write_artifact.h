#pragma once
// The quantised weights that a run hands in, in the two formats of the Python scripts, which
// torch.load(weights_only=True) reads once unpacked. Both keep tensors of up to 65,536 elements
// unquantised.
#include <string>
#include <string_view>
#include <vector>

#include "ops/quantize/quantize.h"
#include "weights/named_tensors.h"

namespace tg {

constexpr int64_t kMaxUnquantized = 65536;  // elements

struct ArtifactTensor {
  std::string name;           // unbanked: blocks.0.attn.c_q.weight
  at::Tensor tensor;          // floating point, finite, on any device; int6: a matrix
  Quantization quantization;  // in an int6 artifact, where it has more than 65,536 elements
};

struct ArtifactStats {
  size_t file_bytes = 0;
  size_t torch_bytes = 0;    // of the torch.save archive before compression
  size_t payload_bytes = 0;  // of all tensors in it
  size_t weight_bytes = 0;   // of all tensors before quantisation
  double quantize_ms = 0;    // with the copy from the device
  double serialize_ms = 0, compress_ms = 0, write_ms = 0;
};

// final_model.int6.ptz: .xz of {"w": tensors, "m": metadata}. Up to 65,536 elements fp16
// ("passthrough"), larger control tensors fp32 ("passthrough_ctrl"), the others NAME.q int8 and
// NAME.scale ({"type": "int6"|"int8"}), as ops/quantize computes them. Atomically. Errors:
// cannot_create, io; internal (a weight is not finite in fp16).
ArtifactStats write_artifact_int6(const std::vector<ArtifactTensor>& tensors,
                                  const std::string& path);

// final_model.int8.ptz: zlib of the baseline's "int8_clean_per_row_v1". Up to 65,536 elements fp32
// where the name contains one of `keep_fp32` (INT8_KEEP_FLOAT_FP32_NAME_PATTERNS), else fp16; the
// others int8 with scales. `quantization` plays no part. Atomically. Errors: as above.
ArtifactStats write_artifact_int8_zlib(const std::vector<ArtifactTensor>& tensors,
                                       const std::vector<std::string>& keep_fp32,
                                       const std::string& path);

}  // namespace tg
