#include "weights/artifact/write_artifact.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/elapsed.h"
#include "base/progress.h"
#include "files/compressed.h"
#include "weights/artifact/artifact_payload.h"

namespace tg {
namespace {

PickleDict one(std::string key, PickleValue value) {
  PickleDict dict;
  dict.add(std::move(key), std::move(value));
  return dict;
}

PickleDict int6_value(const std::vector<ArtifactTensor>& tensors, ArtifactStats& stats) {
  ArtifactPayload payload(stats);
  PickleDict weights, metadata;
  for (const auto& [name, tensor, quantization] : tensors) {
    assert(tensor.is_floating_point());
    stats.weight_bytes += tensor.nbytes();
    if (tensor.numel() <= kMaxUnquantized) {
      payload.add(weights, name, tensor.detach().to(at::kHalf));
      metadata.add(name, "passthrough");
    } else if (quantization == Quantization::keep_fp32) {
      payload.add(weights, name, tensor.detach().to(at::kFloat));
      metadata.add(name, "passthrough_ctrl");
    } else {
      const bool six = quantization == Quantization::int6;
      const QuantizedWeight weight = six ? quantize_int6(tensor) : quantize_int8(tensor);
      payload.add(weights, name + ".q", weight.q);
      payload.add(weights, name + ".scale", weight.scale);
      metadata.add(name, one("type", six ? "int6" : "int8"));
    }
    report_progress(0);
  }
  PickleDict all = one("w", std::move(weights));
  all.add("m", std::move(metadata));
  return all;
}

// Returns Python's str(dtype) without "torch.".
const char* python_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    default:
      assert(dtype == at::kDouble);
      return "float64";
  }
}

bool contains_one_of(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return name.find(pattern) != std::string::npos;
  });
}

PickleDict int8_value(const std::vector<ArtifactTensor>& tensors,
                      const std::vector<std::string>& keep_fp32, ArtifactStats& stats) {
  ArtifactPayload payload(stats);
  PickleDict quantized, scales, dtypes, passthrough, qmeta, original_dtypes;
  PickleDict per_row = one("scheme", "per_row");
  per_row.add("axis", 0);
  for (const auto& [name, tensor, quantization] : tensors) {
    assert(tensor.is_floating_point());
    stats.weight_bytes += tensor.nbytes();
    const char* dtype = python_name(tensor.scalar_type());
    if (tensor.numel() > kMaxUnquantized) {
      const QuantizedWeight weight = quantize_int8(tensor);
      payload.add(quantized, name, weight.q);
      payload.add(scales, name, weight.scale);
      dtypes.add(name, dtype);
      if (weight.scale.dim() > 0) qmeta.add(name, per_row);
    } else if (contains_one_of(name, keep_fp32)) {
      payload.add(passthrough, name, tensor.detach().to(at::kFloat));
    } else {
      payload.add(passthrough, name, tensor.detach().to(at::kHalf));
      original_dtypes.add(name, dtype);
    }
    report_progress(0);
  }
  PickleDict all = one("__quant_format__", "int8_clean_per_row_v1");
  all.add("quantized", std::move(quantized));
  all.add("scales", std::move(scales));
  all.add("dtypes", std::move(dtypes));
  all.add("passthrough", std::move(passthrough));
  if (!qmeta.items.empty()) all.add("qmeta", std::move(qmeta));
  if (!original_dtypes.items.empty())
    all.add("passthrough_orig_dtypes", std::move(original_dtypes));
  return all;
}

}  // namespace

ArtifactStats write_artifact_int6(const std::vector<ArtifactTensor>& tensors,
                                  const std::string& path) {
  const Lap lap;
  ArtifactStats stats;
  const PickleDict value = int6_value(tensors, stats);
  return write_packed(value, compress_xz, path, stats, lap);
}

ArtifactStats write_artifact_int8_zlib(const std::vector<ArtifactTensor>& tensors,
                                       const std::vector<std::string>& keep_fp32,
                                       const std::string& path) {
  const Lap lap;
  ArtifactStats stats;
  const PickleDict value = int8_value(tensors, keep_fp32, stats);
  return write_packed(value, compress_zlib, path, stats, lap);
}

}  // namespace tg
