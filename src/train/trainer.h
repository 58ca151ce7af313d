#pragma once
#include "train/run.h"

namespace tg {

// A run, from its first event to its last: assembles it, warms up or resumes, trains, and writes
// and scores its outputs. Collective. Errors: internal (a loss or gradient that is not finite),
// those of Run and FinalOutputs, of reading and writing; stopped.
void train(RunSetup setup);

}  // namespace tg
