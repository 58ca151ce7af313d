#pragma once
#include "train/run.h"

namespace tg {

// A run, from its first event to its last: assembles it, warms up or resumes, trains, and writes
// and scores its outputs. Collective. Errors: those of Run, TrainLoop and FinalOutputs.
void train(RunSetup setup);

}  // namespace tg
