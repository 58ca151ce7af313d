#include "train/run.h"

#include <fmt/format.h>

#include <utility>

#include "config/derived.h"
#include "recipes/recipe.h"

namespace tg {

namespace {

// Returns data_identity(). Checks that the checkpoint's data is the run's, before anything in
// OUTPUT_DIR changes.
FixedTexts checked_data(const RunSetup& setup, const TokenSource& training) {
  auto data = data_identity(setup.settings.data, training);
  if (const auto& resume = setup.resume) {
    require_same_data(*resume, setup.settings.data, data, training.known_tokens());
    if (setup.communicator.rank() == 0) go_back_to(*resume, setup.output_dir);
  }
  return data;
}

std::string how_to_go_on(const Settings& settings, const Origins& origins) {
  std::string with;
  if (!is_given(origins, "run_id") && !is_given(origins, "output_dir")) {
    with = " with RUN_ID=" + settings.data.run_id;
  }
  if (settings.runtime.resume != "auto")
    with += (with.empty() ? " with" : " and") + std::string(" RESUME=auto");
  return fmt::format("start the same command again{} to go on", with);
}

// Warns if the run that LR_TRACE records ended before the last stage.
std::optional<std::string> stage_notice(const Settings& settings, const Plan& plan,
                                        const std::vector<TracedStep>& lr_trace) {
  const auto last = plan.last_stage();
  if (lr_trace.empty() || lr_trace.back().stage >= last) return std::nullopt;
  return fmt::format("LR_TRACE={}: its run never came to a stage \"{}\", and so this one does not",
                     settings.optim.lr_trace, plan.stages[static_cast<std::size_t>(last)].title);
}

void report_start(Run& run) {
  const auto& ranks = run.ranks;
  auto& report = run.report;
  if (const auto& resume = run.resume) {
    const auto& manifest = resume->manifest;
    report.emit(Resumed{manifest.step, resume->checkpoint, static_cast<int>(manifest.world_size)});
  }
  if (ranks.world_size > 1) report.emit(ranks);
  report.emit(describe(run.parts, run.settings, run.machine, ranks.world_size));
  for (const auto& padded : padded_sizes(run.settings.model, run.machine.padding)) {
    report.emit(padded);
  }
  const auto& weights = run.parts.weights;
  for (const auto& notice : weights.parameters.pattern_notices(
           recipe_defaults(run.settings).averaging.control_tensor_name_patterns)) {
    report.emit(SettingWarning{notice});
  }
  if (const auto notice = fp8_head_notice(run.settings, run.machine, weights.model.fp8_parts())) {
    report.emit(SettingWarning{*notice});
  }
  if (const auto notice = stage_notice(run.settings, weights.model.plan(), run.lr_trace))
    report.emit(SettingWarning{*notice});
}

}  // namespace

Run::Run(RunSetup setup)
    : RunSetup(std::move(setup)),
      parts(settings, machine, communicator, resume ? ModelUse::resuming : ModelUse::training),
      data(checked_data(*this, *parts.tokens.train)),
      state(settings, machine.device, communicator, parts.weights.model.plan(),
            parts.weights.parameters, parts.optimizer, parts.weights.model.fp8_scales(),
            parts.feeder),
      report(output_dir, settings, origins,
             {.rank = communicator.rank(),
              .world_size = communicator.world_size(),
              .device = machine.device_name,
              .versions = version_text()},
             // The step after which this run continues its own files.
             resume && resume->same_run ? std::optional(resume->manifest.step) : std::nullopt),
      checkpoints(settings, machine, communicator, store, output_dir, data,
                  how_to_go_on(settings, origins), report) {
  state.clock.replay(lr_trace);
  if (settings.runtime.profile == ProfileMode::on) {
    trace.emplace(fmt::format("{}/trace_rank{}.json", output_dir, communicator.rank()),
                  settings.runtime, machine.device, parts.spans);
  }
  communicator.time_collective_waits(settings.io.training_timing_breakdown != TimingBreakdown::off);
  report_start(*this);
}

StageFacts Run::stage_facts(std::int64_t stage) const {
  const auto& named = parts.weights.model.plan().stages[static_cast<std::size_t>(stage)];
  return {stage, named.title, named.encoder, named.decoder};
}

void Run::free_step_memory() {
  if (measures_memory(settings)) parts.step.release_graphs();
}

Score Run::score() {
  free_step_memory();
  return parts.validation.score(
      parts.weights.model, validation_length(settings), [this](const ValidationProgress& done) {
        report.emit(
            ValidationProgressed{done.batch, done.batches, done.mean_loss, done.predictions});
      });
}

}  // namespace tg
