#pragma once
// The model in a checkpoint, for programs that use no other part of a run's state.
#include <string>

#include "checkpoint/model_record.h"
#include "config/types/choices.h"
#include "weights/named_tensors.h"

namespace tg {

struct CheckpointModel {
  std::string folder;
  NamedTensors weights;  // by the parameters' names, on the CPU, in their dtypes
  std::string which;     // "the weights as trained" or "the average (EMA) of the weights"
  ModelRecord record{};
};

// Raw weights, or the average that the run would apply at its end: LAWA, EMA or SWA, whichever it
// keeps (WeightAverage::apply); with `automatic` that where there is one. `ema` is that average
// alone. Every byte is checked first. Errors: missing_input (no checkpoint, or its run removed it
// meanwhile); bad_data; io; usage (`ema` of one without averages).
CheckpointModel read_checkpoint_model(const std::string& folder, WeightsChoice choice);
// Reads the model of the newest valid checkpoint in `root`. Skips a damaged one with a warning, and
// looks again if the run removes or replaces it meanwhile. Throws as read_checkpoint_model() does.
CheckpointModel read_newest_model(const std::string& root, WeightsChoice choice);

}  // namespace tg
