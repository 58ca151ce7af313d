#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "model_io/checkpoint_model.h"
#include "model_io/model_files.h"
#include "model_io/stored_record.h"
#include "recipes/gpt_spec.h"
#include "recipes/recipe.h"
#include "weights/artifact/read_artifact.h"
#include "weights/foreign_weights.h"
#include "weights/tensors/tensor_check.h"
#include "weights/weights_file.h"

namespace tg {

namespace {

using Facts = std::vector<std::string>;

void note(const std::string& model, const Facts& facts) {
  if (!facts.empty()) log_note("{}: {}", model, fmt::join(facts, "; "));
}

// Returns lines about what was read from, left out of and renamed in another program's file.
Facts facts_of(const StateDict& file, const std::vector<std::string>& taken_off) {
  Facts facts;
  if (!file.under.empty())
    facts.push_back(fmt::format("the weights under '{}'", fmt::join(file.under, "', '")));
  if (!file.left_out.empty()) facts.push_back(fmt::format("without {}", names_text(file.left_out)));
  if (!taken_off.empty())
    facts.push_back(fmt::format("{} taken off the names", fmt::join(taken_off, ", ")));
  return facts;
}

bool erase_named(NamedTensors& tensors, std::string_view name) {
  return std::erase_if(tensors, [&](const auto& named) { return named.first == name; }) > 0;
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.contiguous().const_data_ptr(), b.contiguous().const_data_ptr(),
                     a.nbytes()) == 0;
}

// Erases a tied head's second copy: other programs' files may have the table under both names.
// Returns whether there were two.
bool erase_tied_head(NamedTensors& tensors) {
  const auto *head = find_tensor(tensors, kHead), *table = find_tensor(tensors, kTokenTable);
  return head && table && same_bytes(*head, *table) && erase_named(tensors, kHead);
}

// Returns the table's tensors that the weights `from` set. `from` is a whole model, or an exported
// one, without the parameters that are never exported, which keep their initial values. Its
// matrices are in banks, or each has a name of its own, as in artifacts and for transformers.
NamedTensors tensors_to_set(const ParameterTable& table, const NamedTensors& from) {
  const auto& rows = table.rows();
  NamedTensors into;
  const auto parts = unbanked(table);
  const bool by_parts = std::ranges::any_of(parts, [&](const ParameterPart& part) {
    return !table.find(part.name).defined() && find_tensor(from, part.name);
  });
  if (by_parts) {
    for (const auto& part : parts) into.emplace_back(part.name, part.value);
    return into;
  }
  const bool whole = std::ranges::any_of(
      rows, [&](const Parameter& row) { return !row.exported && find_tensor(from, row.name); });
  for (const auto& row : rows)
    if (whole || row.exported) into.emplace_back(row.name, row.value.detach());
  return into;
}

}  // namespace

StoredModel read_model(const Settings& settings, const ModelPath& model) {
  const auto& given = settings.runtime.init_from;
  const auto choice = settings.runtime.weights;
  if (model.kind == ModelKind::checkpoint) {
    auto checkpoint = read_checkpoint_model(model.path, choice);
    note(given, {checkpoint.which});
    return {std::move(checkpoint.weights), std::move(checkpoint.record)};
  }
  if (model.kind == ModelKind::newest_checkpoint) {
    auto checkpoint = read_newest_model(model.path, choice);
    note(given, {"the newest checkpoint, " + checkpoint.folder, checkpoint.which});
    return {std::move(checkpoint.weights), std::move(checkpoint.record)};
  }
  auto file = load_weights(model.path);
  auto taken_off = unwrap_names(file.tensors, model.path);
  refuse_foreign_names(file.tensors, model.path);
  const auto& [script, rename] = recipe_of(settings).script_weights;
  if (rename != nullptr && rename(file.tensors))
    taken_off.push_back(fmt::format("names of {}", script));
  if (settings.model.tie_embeddings && erase_tied_head(file.tensors))
    file.left_out.emplace_back(kHead);
  if (settings.model.lanes.parallel_start_layer == 0) {
    // The last record's script saves the weights of the two lanes even for a model without lanes.
    for (const auto* name : {kLanePost, kLaneResidual})
      if (erase_named(file.tensors, name)) file.left_out.emplace_back(name);
  }
  note(model.path, facts_of(file, taken_off));
  return {std::move(file.tensors), stored_record(model.path, file.metadata)};
}

void load_into(const ParameterTable& table, const NamedTensors& from, const std::string& path,
               ExitCode misfit) {
  auto into = tensors_to_set(table, from);
  copy_into(from, into, path, misfit);
}

namespace {

StoredModel read_any(const ParameterTable& table, const Settings& settings,
                     const ModelPath& model) {
  if (model.artifact == Artifact::none) return read_model(settings, model);
  // The size limit allows an artifact of a larger model, so that the error can name the
  // differences.
  constexpr std::int64_t kTimesLarger = 16, kLeast = 1 << 24;
  return {read_artifact(model.path, std::max(kTimesLarger * table.element_count(), kLeast)),
          stored_record(model.path, /*metadata=*/{})};
}

}  // namespace

std::optional<ModelRecord> load_model(const ParameterTable& table, const Settings& settings,
                                      Communicator& communicator, ExitCode misfit) {
  const auto model = find_model(settings.runtime.init_from, settings.runtime.weights);
  // Unpacking a GPTQ artifact may start seven lrzip processes, so only rank 0 does.
  const bool for_all =
      model.kind == ModelKind::newest_checkpoint || model.artifact == Artifact::gptq;
  std::optional<ModelRecord> record;
  if (!for_all || communicator.rank() == 0) {
    const auto from = read_any(table, settings, model);
    load_into(table, from.weights, model.path, misfit);
    record = from.record;
  }
  if (for_all) broadcast_weights(table, /*exported_alone=*/false, communicator);
  const auto text = communicator.broadcast(record ? record_text(*record) : "");
  return text.empty() ? std::nullopt : std::optional(record_of_text(text, "rank 0"));
}

void broadcast_weights(const ParameterTable& table, bool exported_alone,
                       Communicator& communicator) {
  if (communicator.world_size() == 1) return;
  // Broadcasts by a sum in which all ranks but 0 contribute zeros.
  for (const auto& row : table.rows()) {
    if (exported_alone && !row.exported) continue;
    const auto value = row.value.detach();
    if (communicator.rank() != 0) value.zero_();
    communicator.sum(value).wait();
  }
}

}  // namespace tg
