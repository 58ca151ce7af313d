#include "train/artifact_files.h"

#include "artifact/read_artifact.h"
#include "store/weights_file.h"

namespace tg {

namespace {

ArtifactKind kind_of(Quantization quantization) {
  switch (quantization) {
    case Quantization::int6:
      return ArtifactKind::int6;
    case Quantization::int8:
      return ArtifactKind::int8;
    case Quantization::keep_fp32:
      break;
  }
  return ArtifactKind::control;
}

}  // namespace

ArtifactStats save_artifact(const ParameterTable& table, const Settings& settings,
                            const std::string& path) {
  std::vector<ArtifactTensor> tensors;
  for (const auto& part : unbanked(table)) {
    tensors.push_back({part.name, part.value, kind_of(part.quantization)});
  }
  if (settings.runtime.artifact == Artifact::int6) return write_artifact_int6(tensors, path);
  return write_artifact_int8_zlib(tensors, settings.averaging.int8_keep_float_fp32_name_patterns,
                                  path);
}

void load_artifact(const ParameterTable& table, const std::string& path,
                   Communicator& communicator) {
  const at::NoGradGuard no_grad;
  NamedTensors into;
  for (const auto& part : unbanked(table)) into.emplace_back(part.name, part.value);
  if (communicator.rank() == 0) {
    copy_into(read_artifact(path, table.element_count()), into, path);
  } else {
    for (const auto& [name, value] : into) value.zero_();
  }
  if (communicator.world_size() == 1) return;
  // A sum in which all others are zero: rank 0's values.
  for (const auto& row : table.rows()) {
    if (row.exported) communicator.sum(row.value.detach()).wait();
  }
}

}  // namespace tg
