#pragma once
// Final outputs of a run: its weights, as they are and quantized, and their scores.
#include "ops/quantize/hessian_factor.h"
#include "train/final_scores.h"
#include "train/run.h"

namespace tg {

class FinalOutputs {
 public:
  explicit FinalOutputs(Run& run);
  // Call it after the last step: applies the average, writes final_model.* and ARTIFACT, scores
  // both, and finishes the checkpoints. Collective. Throws ExitCode::internal if a weight is not
  // finite, errors of writing, and stopped.
  void write();

 private:
  // Metadata of the final weights; its stage is the one that is scored after the last step.
  ModelRecord record() const;
  void apply_average();
  void write_final_model();
  void write_and_score_artifact();
  // Runs on rank 0 only. `hessians`: with ARTIFACT=gptq.
  ArtifactWritten write_artifact(const std::string& path, Hessians hessians);

  Run& run_;
  FinalScores scores_;
};

}  // namespace tg
