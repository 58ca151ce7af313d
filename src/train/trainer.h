#pragma once
#include "train/run.h"

namespace tg {

// Runs training from its first event to its last: assembles the run, warms up or resumes, trains,
// writes and scores the outputs. Collective. Throws Error: internal for a loss or gradient that is
// not finite; what Run, FinalOutputs, reading and writing throw; stopped.
void train(RunSetup setup);

}  // namespace tg
