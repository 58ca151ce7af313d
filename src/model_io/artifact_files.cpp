#include "model_io/artifact_files.h"

#include <algorithm>
#include <cassert>

#include "files/byte_source.h"
#include "files/compressed.h"
#include "files/little_endian.h"
#include "files/lrzip.h"
#include "model_io/model_files.h"
#include "model_io/stored_record.h"
#include "process/machine.h"
#include "weights/artifact/gptq_value.h"
#include "weights/artifact/pergroup.h"
#include "weights/artifact/read_artifact.h"
#include "weights/weights_file.h"

namespace tg {

namespace {

ArtifactWritten written(const std::string& path, Artifact format, const ModelRecord& record,
                        const ArtifactStats& stats) {
  return {.path = path,
          .format = format,
          .bytes = stats.file_bytes,
          .record_bytes = write_record_beside(path, record),
          .code_bytes = code_bytes(),
          .torch_bytes = stats.torch_bytes,
          .payload_bytes = stats.payload_bytes,
          .weight_bytes = stats.weight_bytes,
          .quantize_ms = stats.quantize_ms,
          .serialize_ms = stats.serialize_ms,
          .compress_ms = stats.compress_ms,
          .write_ms = stats.write_ms};
}

}  // namespace

ArtifactWritten write_artifact(const ParameterTable& table, const ModelRecord& record,
                               const Settings& settings, const std::string& path) {
  std::vector<ArtifactTensor> tensors;
  for (const auto& part : unbanked(table))
    tensors.push_back({part.name, part.value, part.quantization});
  const auto format = settings.runtime.artifact;
  assert(format == Artifact::int6 || format == Artifact::int8_zlib);
  const auto& keep_fp32 = settings.averaging.int8_keep_float_fp32_name_patterns;
  return written(path, format, record,
                 format == Artifact::int6 ? write_artifact_int6(tensors, path)
                                          : write_artifact_int8_zlib(tensors, keep_fp32, path));
}

ArtifactWritten write_artifact(const GptqModel& model, const ModelRecord& record,
                               Compressor compressor, const std::string& path) {
  auto event =
      written(path, Artifact::gptq, record, write_artifact_gptq(model.tensors, compressor, path));
  event.compressor = compressor;
  event.quantize_ms += model.event.ms;
  return event;
}

void require_compressor(Compressor compressor) {
  if (compressor == Compressor::pergroup) require_lrzip();
}

std::string artifact_name(Artifact artifact) {
  if (artifact == Artifact::none) return "";
  return artifact == Artifact::int8_zlib ? "final_model.int8.ptz" : "final_model.int6.ptz";
}

Artifact artifact_of(const std::string& path) {
  constexpr std::size_t kHead =
      1 << 20;  // bytes that hold an archive's names and kinds, compressed or not
  const FileSource file(path);
  if (!file.holds(0, sizeof(std::uint64_t))) return Artifact::none;
  const auto head = file.read(0, std::min<std::uint64_t>(file.size(), kHead));
  if (is_pergroup(head) || is_brotli_archive(head)) return Artifact::gptq;
  if (is_xz(head)) return begins_as_gptq(xz_begin(head, kHead)) ? Artifact::gptq : Artifact::int6;
  // A safetensors file's header length may begin as zlib does.
  const auto length = number_at<std::uint64_t>(head);
  return is_zlib(head) && length > file.size() ? Artifact::int8_zlib : Artifact::none;
}

void load_artifact(const ParameterTable& table, const std::string& path,
                   Communicator& communicator) {
  const at::NoGradGuard no_grad;
  if (communicator.rank() == 0) {
    const PeerWatch::Work reading(communicator.watch(), "reading " + path);
    NamedTensors into;
    for (const auto& part : unbanked(table)) into.emplace_back(part.name, part.value);
    copy_into(read_artifact(path, table.element_count()), into, path);
  }
  broadcast_weights(table, /*exported_alone=*/true, communicator);
}

}  // namespace tg
