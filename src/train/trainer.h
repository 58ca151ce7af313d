#pragma once
#include "train/run.h"

namespace tg {

// Runs training from its first event to its last: sets it up, warms up or resumes, trains, and
// writes and scores its outputs. Collective. Throws ExitCode::internal if a loss or gradient is not
// finite, errors of Run and FinalOutputs, of reading and writing, and stopped.
void train(RunSetup setup);

}  // namespace tg
