#pragma once
// What a run writes at its end: its final weights, as they are and quantised, and their scores.
#include "ops/quantize/hessian_factor.h"
#include "train/final_scores.h"
#include "train/run.h"

namespace tg {

class FinalOutputs {
 public:
  explicit FinalOutputs(Run& run);
  // Called once the steps are done: applies the average, writes final_model.* and ARTIFACT, scores
  // the weights in them, and ends the checkpoints. Collective. Throws Error: internal for a weight
  // that is not finite; what writing throws; stopped.
  void write();

 private:
  // What is stored with the final weights, whose stage is the one that is scored after the last
  // step.
  ModelRecord record() const;
  void apply_average();
  void write_final_model();
  void write_and_score_artifact();
  // On rank 0. `hessians`: with ARTIFACT=gptq.
  ArtifactWritten write_artifact(const std::string& path, Hessians hessians);

  Run& run_;
  FinalScores scores_;
};

}  // namespace tg
