#include "train/final_outputs.h"

#include "base/elapsed.h"
#include "model_io/artifact_files.h"
#include "model_io/model_files.h"
#include "recipes/recipe.h"
#include "train/calibration.h"

namespace tg {

FinalOutputs::FinalOutputs(Run& run)
    : run_(run),
      scores_(run.settings, run.machine, run.communicator, run.parts.weights, *run.parts.tokens.val,
              run.parts.validation, [&run](const RunEvent& event) { run.report.emit(event); }) {}

void FinalOutputs::write() {
  run_.report.emit(LoopEnded{run_.state.clock.elapsed_ms(), run_.state.validation_ms});
  const auto peak = peak_memory(run_.machine.device);
  run_.report.emit(MemoryMeasured{peak.allocated, peak.reserved});
  apply_average();
  write_final_model();
  run_.free_step_memory();
  if (run_.settings.runtime.artifact != Artifact::none) write_and_score_artifact();
  scores_.score_windows();
  scores_.train_and_score(run_.state.fake_quant);
  scores_.score_and_train_in_phases();
  run_.checkpoints.finish();
}

void FinalOutputs::apply_average() {
  const auto line = run_.state.average->apply();
  require_finite(run_.parts.weights.parameters);
  if (line.empty()) return;
  run_.report.emit(AverageApplied{line});
  const auto began = Clock::now();
  const auto scored = run_.score();
  const auto& [line_name, name, digits] = recipe_of(run_.settings).average_score;
  run_.report.emit(FinalScored{.line_name = line_name,
                               .name = name,
                               .loss = scored.loss,
                               .unmasked_loss = scored.unmasked_loss,
                               .bpb = scored.bpb,
                               .eval_ms = milliseconds_since(began),
                               .digits = digits});
}

ModelRecord FinalOutputs::record() const {
  auto record = run_.state.record();
  record.stage = run_.parts.weights.model.plan().scored_stage(record.stage);
  return record;
}

void FinalOutputs::write_final_model() {
  if (run_.communicator.rank() == 0) {
    const PeerWatch::Work writing(run_.communicator.watch(),
                                  "writing the model to " + run_.output_dir);
    run_.report.emit(write_model(run_.parts.weights.parameters, record(), run_.output_dir));
  }
  run_.communicator.barrier();
}

ArtifactWritten FinalOutputs::write_artifact(const std::string& path, Hessians hessians) {
  const auto& parameters = run_.parts.weights.parameters;
  const PeerWatch::Work writing(run_.communicator.watch(), "writing " + path);
  if (run_.settings.runtime.artifact != Artifact::gptq)
    return tg::write_artifact(parameters, record(), run_.settings, path);
  const auto model = quantize_by_gptq(parameters, std::move(hessians), run_.settings.gptq,
                                      run_.settings.runtime.record_quirks);
  run_.report.emit(model.event);
  return tg::write_artifact(model, record(), run_.settings.gptq.compressor, path);
}

// Afterwards, the parameters are those that the artifact holds.
void FinalOutputs::write_and_score_artifact() {
  const auto path = run_.output_dir + "/" + artifact_name(run_.settings.runtime.artifact);
  Hessians hessians;
  if (run_.settings.runtime.artifact == Artifact::gptq)
    hessians = calibrate(run_.settings, run_.machine, run_.communicator, run_.parts.weights,
                         *run_.parts.tokens.train,
                         [this](const RunEvent& event) { run_.report.emit(event); });
  if (run_.communicator.rank() == 0) run_.report.emit(write_artifact(path, std::move(hessians)));
  hessians.clear();
  run_.communicator.barrier();
  auto& [parameters, record, model] = run_.parts.weights;
  load_artifact(parameters, path, run_.communicator);
  // As in the last record's script: its artifact uses recurrence even if training stopped before
  // it.
  if (run_.settings.runtime.record_quirks && run_.settings.runtime.artifact == Artifact::gptq)
    model.set_stage(std::ssize(model.plan().stages) - 1);
  scores_.score_sequences();
}

}  // namespace tg
