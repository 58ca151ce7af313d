#include "train/model_files.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "model/init.h"
#include "store/safetensors.h"
#include "store/torch_file.h"
#include "store/weights_file.h"

namespace tg {

namespace {

bool is_mtp_head(const std::string& name) {
  return name.rfind("mtp_heads.", 0) == 0;
}

void load_into(const ParameterTable& table, const std::string& path) {
  const auto from = load_weights(path);
  const bool has_mtp = std::any_of(from.begin(), from.end(),
                                   [](const auto& named) { return is_mtp_head(named.first); });
  NamedTensors into;
  for (auto& [name, value] : table.named_values()) {
    // Exported models leave the multi-token heads out: those then keep their drawn weights.
    if (has_mtp || !is_mtp_head(name)) into.emplace_back(name, value);
  }
  copy_into(from, into, path);
}

}  // namespace

ParameterTable initial_weights(const Settings& settings, const Machine& machine) {
  auto table = make_parameters(settings.model, machine.storage, machine.device,
                               settings.averaging.control_tensor_name_patterns);
  initialize(table, settings.model, settings.data.seed, settings.optim.tied_embed_init_std);
  if (!settings.runtime.init_from.empty()) load_into(table, settings.runtime.init_from);
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

void write_model(const ParameterTable& table, const std::string& dir) {
  NamedTensors exported;
  std::int64_t excluded = 0;
  for (auto& [name, value] : table.named_values()) {
    if (is_mtp_head(name)) {
      excluded += value.numel();
    } else {
      exported.emplace_back(name, value.cpu());
    }
  }
  if (excluded > 0) log_info("export_excluding_mtp_params:{}", excluded);
  save_safetensors(dir + "/final_model.safetensors", exported);
  save_torch(dir + "/final_model.pt", exported);
  log_info("Serialized model: {} bytes", std::filesystem::file_size(dir + "/final_model.pt"));
  log_info("Code size: {} bytes", code_bytes());
}

}  // namespace tg
