#include "run_log/tensorboard_sink.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/is_in.h"
#include "base/strings.h"
#include "config/resolved.h"
#include "files/folder.h"
#include "run_log/events.h"

namespace tg {
namespace {

using nlohmann::json;

// Events whose numbers are written, at their own step or at the last step.
constexpr auto at_a_step = std::to_array<std::string_view>(
    {StepEnded::kEvent.name, StepTimed::kEvent.name, Validated::kEvent.name,
     StepSkipped::kEvent.name, CheckpointSaved::kEvent.name});
constexpr auto at_the_end =
    std::to_array<std::string_view>({MemoryMeasured::kEvent.name, FinalScored::kEvent.name,
                                     LoopEnded::kEvent.name, ArtifactWritten::kEvent.name});

// Returns the tag: train, train_loss → train/loss; for `final` events final/NAME/loss.
std::string tag_of(const json& event, std::string_view field) {
  const auto& name = event["event"].get_ref<const std::string&>();
  const bool is_final = name == FinalScored::kEvent.name;
  const std::string prefix = (is_final ? Validated::kEvent.name : name) + "_";
  if (field.starts_with(prefix)) field.remove_prefix(prefix.size());
  return is_final ? fmt::format("final/{}/{}", event["name"].get_ref<const std::string&>(), field)
                  : fmt::format("{}/{}", name, field);
}

EventFile::Scalars scalars_of(const json& event) {
  EventFile::Scalars scalars;
  for (const auto& [field, number] : event.items()) {
    if (field == "step" || !number.is_number()) continue;
    scalars.emplace_back(tag_of(event, field), number.get<double>());
  }
  return scalars;
}

// Indents text by four, a Markdown code block, so that TensorBoard shows it verbatim.
std::string as_code(const std::string& text) {
  return "    " + replaced(text, "\n", "\n    ");
}

const std::string& made_folder(const std::string& folder) {
  create_folders(folder);
  return folder;
}

}  // namespace

TensorboardSink::TensorboardSink(const std::string& folder, const Settings& settings,
                                 std::optional<std::int64_t> continues_at)
    : settings_(settings), file_(made_folder(folder)), step_(continues_at.value_or(0)) {
  // A TensorBoard that watches the folder has already read the steps that are trained again.
  if (continues_at) file_.write_restart(*continues_at + 1);
  file_.write_text(step_, "settings", as_code(settings_text(settings)));
}

void TensorboardSink::add_derived(const json& train, EventFile::Scalars& scalars) {
  const auto& optim = settings_.optim;
  const bool tied = settings_.model.tie_embeddings;
  const double scale = train["lr_scale"].get<double>();
  scalars.emplace_back("lr/embed", scale * (tied ? optim.tied_embed_lr : optim.embed_lr));
  if (!tied) scalars.emplace_back("lr/head", scale * optim.head_lr);
  scalars.emplace_back("lr/matrix", scale * optim.matrix_lr);
  scalars.emplace_back("lr/scalar", scale * optim.scalar_lr);
  const double ms = train["train_time_ms"].get<double>(), tokens = train["tokens"].get<double>();
  if (last_ms_ && ms > *last_ms_) {
    const double rate = (tokens - last_tokens_) / (ms - *last_ms_) * 1000;
    scalars.emplace_back("train/tokens_per_s", rate);
    const double flops = rate * train["flops_per_token"].get<double>();
    if (peak_flops_ > 0) scalars.emplace_back("train/mfu", flops / peak_flops_);
  }
  last_ms_ = ms;
  last_tokens_ = tokens;
}

void TensorboardSink::write(const json& event) {
  const auto& name = event["event"].get_ref<const std::string&>();
  if (name == RunStarted::kEvent.name) {
    peak_flops_ = event.value("peak_flops", 0.0) * event["world_size"].get<double>();
  }
  if (!is_in(at_a_step, name) && !is_in(at_the_end, name)) return;
  step_ = event.value("step", step_);
  auto scalars = scalars_of(event);
  if (name == StepEnded::kEvent.name) add_derived(event, scalars);
  file_.write_scalars(step_, scalars);
}

void cut_tensorboard(const std::string& folder, std::int64_t step) {
  cut_event_files(folder, "train/loss", step);
}

}  // namespace tg
