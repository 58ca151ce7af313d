#include "weights/artifact/write_artifact_gptq.h"

#include "base/elapsed.h"
#include "files/atomic_file.h"
#include "files/compressed.h"
#include "weights/artifact/artifact_payload.h"
#include "weights/artifact/gptq_value.h"
#include "weights/artifact/pergroup.h"

namespace tg {
namespace {

ArtifactStats write_pergroup(const PickleDict& value, const std::string& path, ArtifactStats stats,
                             Lap lap) {
  stats.quantize_ms = milliseconds(lap());
  const auto file = pack_pergroup(value);
  stats.torch_bytes = file.torch_bytes;
  stats.file_bytes = file.bytes.size();
  stats.compress_ms = milliseconds(lap());
  write_file_atomically(path, file.bytes);
  stats.write_ms = milliseconds(lap());
  return stats;
}

std::string compress_archive(std::string_view bytes) {
  return compress_brotli(bytes, kBrotliWindow);
}

}  // namespace

ArtifactStats write_artifact_gptq(const std::vector<GptqTensor>& tensors, Compressor compressor,
                                  const std::string& path) {
  const Lap lap;
  ArtifactStats stats;
  const PickleDict value = gptq_value(tensors, stats);
  if (compressor == Compressor::pergroup) return write_pergroup(value, path, stats, lap);
  const bool xz = compressor == Compressor::lzma;
  return write_packed(value, xz ? compress_xz : compress_archive, path, stats, lap);
}

}  // namespace tg
