#include "model_io/model_files.h"

#include <filesystem>

#include "base/error.h"
#include "model/init.h"
#include "model/tied_rows.h"
#include "model_io/stored_record.h"
#include "recipes/gpt_spec.h"
#include "weights/pickle/torch_file.h"
#include "weights/safetensors/safetensors.h"
#include "weights/tensors/tensor_check.h"

namespace tg {

namespace {

// Returns a table whose multi-token heads are zero, for models that lack them.
ParameterTable zero_heads(const ModelSpec& spec, const Settings& settings, at::ScalarType storage,
                          at::Device device) {
  auto table = make_parameters(spec, settings, storage, device);
  for (const auto& row : table.rows())
    if (!row.exported) row.value.detach().zero_();
  return table;
}

}  // namespace

ParameterTable drawn_weights(const ModelSpec& spec, const Settings& settings,
                             const Machine& machine) {
  auto table = make_parameters(spec, settings, machine.storage, machine.device);
  initialize(table, spec.draws, settings.data.seed);
  return table;
}

ParameterTable initial_weights(const ModelSpec& spec, const Settings& settings,
                               const Machine& machine, Communicator& communicator) {
  auto table = drawn_weights(spec, settings, machine);
  if (settings.runtime.init_from.empty()) return table;
  load_model(table, settings, communicator, ExitCode::bad_data);
  const auto all_tied = tied_rows(table);
  for (const auto& tied : all_tied) {
    REQUIRE(is_equal(tied), ExitCode::config,
            "{}: its {} and {} differ (expected equal ones with UNTIE_EMBEDDINGS_AT={}); set "
            "UNTIE_EMBEDDINGS_AT=0",
            settings.runtime.init_from, tied.row->name, tied.to->name,
            settings.optim.untie_embeddings_at);
  }
  copy_tied_values(all_tied);
  return table;
}

TrainedModel trained_model(const ModelSpec& spec, const Settings& settings, const Machine& machine,
                           Communicator& communicator) {
  const at::NoGradGuard no_grad;
  auto table = zero_heads(spec, settings, machine.storage, machine.device);
  const auto stored = load_model(table, settings, communicator, ExitCode::config);
  const auto model = find_model(settings.runtime.init_from, settings.runtime.weights);
  auto record = stored ? *stored : inferred_record(settings, spec.plan, model);
  // The reference implementation scores its artifact in the last stage, even if training never
  // reached it.
  if (settings.runtime.record_quirks && model.artifact == Artifact::gptq)
    record.stage = std::ssize(spec.plan.stages) - 1;
  return {std::move(table), std::move(record)};
}

TrainedModel stored_model(const Settings& settings, at::Device device) {
  const at::NoGradGuard no_grad;
  const auto model = find_model(settings.runtime.init_from, settings.runtime.weights);
  require_unquantized(model);
  const auto from = read_model(settings, model);
  const auto* const tokens = find_tensor(from.weights, kTokenTable);
  // A run's tables are bf16 or fp32.
  const bool half = tokens && tokens->scalar_type() == at::kBFloat16;
  const auto spec = model_spec(settings);
  auto table = zero_heads(spec, settings, half ? at::kBFloat16 : at::kFloat, device);
  load_into(table, from.weights, model.path, ExitCode::config);
  return {std::move(table),
          from.record ? *from.record : inferred_record(settings, spec.plan, model)};
}

void require_finite(const ParameterTable& table) {
  const auto name = first_nonfinite(table.named_values());
  REQUIRE(!name, ExitCode::internal,
          "{}: the final weights are not finite (expected finite numbers, found NaN or infinity); "
          "no model was written. Lower MATRIX_LR, SCALAR_LR and TIED_EMBED_LR, or set "
          "GRAD_CLIP_NORM",
          *name);
}

ModelWritten write_model(const ParameterTable& table, const ModelRecord& record,
                         const std::string& dir) {
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
  save_safetensors(safetensors, exported,
                   {{kRecordKey, record_text(record)}, {"program", release_name()}});
  save_torch(torch, exported);
  write_record_beside(torch, record);
  event.safetensors_bytes = std::filesystem::file_size(safetensors);
  event.torch_bytes = std::filesystem::file_size(torch);
  event.code_bytes = code_bytes();
  return event;
}

}  // namespace tg
