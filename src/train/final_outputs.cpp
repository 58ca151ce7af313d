#include "train/final_outputs.h"

#include "base/elapsed.h"
#include "checkpoint/artifact_files.h"
#include "checkpoint/model_files.h"
#include "config/derived.h"

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
  run_.checkpoints.finish();
}

void FinalOutputs::apply_average() {
  const auto line = run_.state.average->apply();
  require_finite(run_.parts.weights.parameters);
  if (line.empty()) return;
  run_.report.emit(AverageApplied{line});
  const auto began = Clock::now();
  const auto scored = run_.score();
  const bool last_record = recipe_of(run_.settings) == RecipeChoice::last_record;
  run_.report.emit(
      FinalScored{last_record ? "diagnostic pre-quantization post-ema" : "DIAGNOSTIC post_ema",
                  last_record ? "pre_quantization_post_ema" : "DIAGNOSTIC_post_ema", scored.loss,
                  scored.bpb, milliseconds_since(began)});
}

void FinalOutputs::write_final_model() {
  if (run_.communicator.rank() == 0) {
    const PeerWatch::Work writing(run_.communicator.watch(),
                                  "writing the model to " + run_.output_dir);
    run_.report.emit(write_model(run_.parts.weights.parameters, run_.output_dir));
  }
  run_.communicator.barrier();
}

// From here on the parameters are what the artifact holds.
void FinalOutputs::write_and_score_artifact() {
  const auto& parameters = run_.parts.weights.parameters;
  const auto path = run_.output_dir + "/" + artifact_name(run_.settings.runtime.artifact);
  if (run_.communicator.rank() == 0) {
    const PeerWatch::Work writing(run_.communicator.watch(), "writing " + path);
    run_.report.emit(write_artifact(parameters, run_.settings, path));
  }
  run_.communicator.barrier();
  load_artifact(parameters, path, run_.communicator);
  scores_.score_sequences();
}

}  // namespace tg
