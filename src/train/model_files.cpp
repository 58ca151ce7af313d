#include "train/model_files.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "model/init.h"
#include "store/safetensors.h"
#include "store/torch_file.h"
#include "store/weights_file.h"
#include "train/artifact_files.h"

namespace tg {

namespace {

// INIT_FROM is a whole model, or one that a run exported: without what is never exported, which
// then keeps its initial values.
void load_into(const ParameterTable& table, const NamedTensors& from, const std::string& path,
               ExitCode misfit) {
  const auto in_file = [&](const Parameter& row) {
    return std::any_of(from.begin(), from.end(),
                       [&](const auto& named) { return named.first == row.name; });
  };
  const auto& rows = table.rows();
  const bool whole = std::any_of(rows.begin(), rows.end(), [&](const Parameter& row) {
    return !row.exported && in_file(row);
  });
  NamedTensors into;
  for (const auto& row : rows) {
    if (whole || row.exported) into.emplace_back(row.name, row.value.detach());
  }
  copy_into(from, into, path, misfit);
}

ParameterTable uninitialized(const Settings& settings, at::ScalarType storage, at::Device device) {
  return make_parameters(settings.model, storage, device,
                         {.control_patterns = settings.averaging.control_tensor_name_patterns,
                          .tied_embed_init_std = settings.optim.tied_embed_init_std,
                          .record_quirks = settings.runtime.record_quirks});
}

// Multi-token heads that the model does not have stay zero.
ParameterTable zero_heads(const Settings& settings, at::ScalarType storage, at::Device device) {
  auto table = uninitialized(settings, storage, device);
  for (const auto& row : table.rows()) {
    if (!row.exported) row.value.detach().zero_();
  }
  return table;
}

}  // namespace

ParameterTable initial_weights(const Settings& settings, const Machine& machine) {
  auto table = uninitialized(settings, machine.storage, machine.device);
  initialize(table, settings.model, settings.data.seed);
  const auto& path = settings.runtime.init_from;
  if (!path.empty()) load_into(table, load_weights(path), path, ExitCode::bad_data);
  return table;
}

ParameterTable trained_weights(const Settings& settings, const Machine& machine) {
  const at::NoGradGuard no_grad;
  auto table = zero_heads(settings, machine.storage, machine.device);
  const auto& path = settings.runtime.init_from;
  if (artifact_of(path) == Artifact::none) {
    load_into(table, load_weights(path), path, ExitCode::config);
  } else {
    // That of a larger model is read, too, to name what differs.
    constexpr std::int64_t kTimesLarger = 16, kLeast = 1 << 24;
    read_artifact_into(table, path, std::max(kTimesLarger * table.element_count(), kLeast),
                       ExitCode::config);
  }
  return table;
}

ParameterTable stored_weights(const Settings& settings, at::Device device) {
  const at::NoGradGuard no_grad;
  const auto& path = settings.runtime.init_from;
  const auto from = load_weights(path);
  const auto tokens = std::find_if(
      from.begin(), from.end(), [](const auto& named) { return named.first == "tok_emb.weight"; });
  // A run has tables of one of the two.
  const bool half = tokens != from.end() && tokens->second.scalar_type() == at::kBFloat16;
  auto table = zero_heads(settings, half ? at::kBFloat16 : at::kFloat, device);
  load_into(table, from, path, ExitCode::config);
  return table;
}

void require_finite(const ParameterTable& table) {
  std::vector<at::Tensor> finite;
  for (const auto& [name, value] : table.named_values()) {
    if (value.numel() == 0) {  // skip_weights of one layer
      finite.push_back(at::ones({}, value.options().dtype(at::kBool)));
      continue;
    }
    // Both are NaN where one value is; unlike isfinite() this needs no memory of the value's size.
    const auto [least, greatest] = at::aminmax(value);
    finite.push_back(least.isfinite() & greatest.isfinite());
  }
  const auto all = at::stack(finite).cpu();  // the device is waited for once
  for (std::size_t i = 0; i < finite.size(); ++i) {
    REQUIRE(all.const_data_ptr<bool>()[i], ExitCode::internal,
            "{}: the final weights are not finite (expected finite numbers, found NaN or "
            "infinity); no model was written. Lower MATRIX_LR, SCALAR_LR and TIED_EMBED_LR, or set "
            "GRAD_CLIP_NORM",
            table.rows()[i].name);
  }
}

ModelWritten write_model(const ParameterTable& table, const std::string& dir) {
  NamedTensors exported;
  ModelWritten event;
  for (const auto& row : table.rows()) {
    if (row.exported) {
      exported.emplace_back(row.name, row.value.detach().cpu());
    } else {
      event.excluded_parameters += row.value.numel();
    }
  }
  const auto safetensors = dir + "/final_model.safetensors", torch = dir + "/final_model.pt";
  save_safetensors(safetensors, exported);
  save_torch(torch, exported);
  event.safetensors_bytes = std::filesystem::file_size(safetensors);
  event.torch_bytes = std::filesystem::file_size(torch);
  event.code_bytes = code_bytes();
  return event;
}

}  // namespace tg
