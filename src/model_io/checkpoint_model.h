#pragma once
// The model in a checkpoint, for commands that need nothing else of a run's state.
#include <string>

#include "checkpoint/model_record.h"
#include "config/types/choices.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

struct CheckpointModel {
  std::string folder;
  NamedTensors weights;  // by parameter name, on the CPU, in the parameters' dtypes
  std::string which;     // "the weights as trained" or "the average (EMA) of the weights"
  ModelRecord record{};
};

// Reads the model of a checkpoint by `choice`: `raw` weights; `ema`, the average that the run would
// apply at its end, LAWA, EMA or SWA (WeightAverage::apply); `automatic`, the average if there is
// one, else raw weights. Verifies every byte. Throws Error: missing_input if there is no
// checkpoint, or its run removed it meanwhile; bad_data; io; usage for `ema` without an average.
CheckpointModel read_checkpoint_model(const std::string& folder, WeightsChoice choice);
// Reads the model of the newest valid checkpoint in `root`. Skips a damaged one with a warning, and
// looks again if the run removes or replaces it meanwhile. Throws as read_checkpoint_model() does.
CheckpointModel read_newest_model(const std::string& root, WeightsChoice choice);

}  // namespace tg
