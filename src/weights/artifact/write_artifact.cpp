#include "weights/artifact/write_artifact.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/elapsed.h"
#include "base/progress.h"
#include "files/atomic_file.h"
#include "files/compressed.h"
#include "weights/artifact/artifact_tensors.h"
#include "weights/artifact/gptq_value.h"
#include "weights/artifact/pergroup.h"
#include "weights/pickle/torch_file.h"

namespace tg {
namespace {

PickleDict one(std::string key, PickleValue value) {
  PickleDict dict;
  dict.add(std::move(key), std::move(value));
  return dict;
}

PickleDict int6_value(const std::vector<ArtifactTensor>& tensors, ArtifactStats& stats) {
  PickleDict weights, metadata;
  for (const auto& [name, tensor, quantization] : tensors) {
    assert(tensor.is_floating_point());
    stats.weight_bytes += tensor.nbytes();
    if (tensor.numel() <= kMaxUnquantized) {
      add_stored(weights, name, tensor.detach().to(at::kHalf), stats);
      metadata.add(name, "passthrough");
    } else if (quantization == Quantization::keep_fp32) {
      add_stored(weights, name, tensor.detach().to(at::kFloat), stats);
      metadata.add(name, "passthrough_ctrl");
    } else {
      const bool six = quantization == Quantization::int6;
      const QuantizedWeight weight = six ? quantize_int6(tensor) : quantize_int8(tensor);
      add_stored(weights, name + ".q", weight.q, stats);
      add_stored(weights, name + ".scale", weight.scale, stats);
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
  PickleDict quantized, scales, dtypes, passthrough, qmeta, original_dtypes;
  PickleDict per_row = one("scheme", "per_row");
  per_row.add("axis", 0);
  for (const auto& [name, tensor, quantization] : tensors) {
    assert(tensor.is_floating_point());
    stats.weight_bytes += tensor.nbytes();
    const char* dtype = python_name(tensor.scalar_type());
    if (tensor.numel() > kMaxUnquantized) {
      const QuantizedWeight weight = quantize_int8(tensor);
      add_stored(quantized, name, weight.q, stats);
      add_stored(scales, name, weight.scale, stats);
      dtypes.add(name, dtype);
      if (weight.scale.dim() > 0) qmeta.add(name, per_row);
    } else if (contains_one_of(name, keep_fp32)) {
      add_stored(passthrough, name, tensor.detach().to(at::kFloat), stats);
    } else {
      add_stored(passthrough, name, tensor.detach().to(at::kHalf), stats);
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

std::string compress_archive(std::string_view bytes) {
  return compress_brotli(bytes, kBrotliWindow);
}

// Writes what `pack` returns, atomically. `lap` was started at the beginning of quantization.
ArtifactStats write_packed(ArtifactStats& stats, Lap& lap, const std::string& path, auto pack) {
  stats.quantize_ms = milliseconds(lap());
  const std::string packed = pack();
  stats.file_bytes = packed.size();
  stats.compress_ms = milliseconds(lap());
  write_file_atomically(path, packed);
  stats.write_ms = milliseconds(lap());
  return stats;
}

// Writes the compressed torch.save archive of `value`.
ArtifactStats write_compressed(ArtifactStats& stats, Lap& lap, const std::string& path,
                               const PickleDict& value, std::string (*compress)(std::string_view)) {
  return write_packed(stats, lap, path, [&] {
    const std::string archive = torch_value_bytes(value);
    stats.torch_bytes = archive.size();
    stats.serialize_ms = milliseconds(lap());
    return compress(archive);
  });
}

}  // namespace

ArtifactStats write_artifact_int6(const std::vector<ArtifactTensor>& tensors,
                                  const std::string& path) {
  Lap lap;
  ArtifactStats stats;
  const PickleDict value = int6_value(tensors, stats);
  return write_compressed(stats, lap, path, value, compress_xz);
}

ArtifactStats write_artifact_int8_zlib(const std::vector<ArtifactTensor>& tensors,
                                       const std::vector<std::string>& keep_fp32,
                                       const std::string& path) {
  Lap lap;
  ArtifactStats stats;
  const PickleDict value = int8_value(tensors, keep_fp32, stats);
  return write_compressed(stats, lap, path, value, compress_zlib);
}

ArtifactStats write_artifact_gptq(const std::vector<GptqTensor>& tensors, Compressor compressor,
                                  const std::string& path) {
  Lap lap;
  ArtifactStats stats;
  const PickleDict value = gptq_value(tensors, stats);
  if (compressor != Compressor::pergroup) {
    const auto compress = compressor == Compressor::lzma ? compress_xz : compress_archive;
    return write_compressed(stats, lap, path, value, compress);
  }
  return write_packed(stats, lap, path, [&] {
    auto file = pack_pergroup(value);
    stats.torch_bytes = file.torch_bytes;
    return std::move(file.bytes);
  });
}

}  // namespace tg
