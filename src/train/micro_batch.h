#pragma once
#include "train/run.h"

namespace tg {

// GRAD_ACCUM_STEPS=auto: cuts each micro-batch into the fewest parts of equal size whose passes fit
// in the GPU's memory beside all else that training allocates (its averages, its update), found by
// real passes; on a CPU, where nothing is measured, into one. Weights, optimizer and loader stay as
// they are. All ranks take the number of the one with the least memory. Collective. Errors: memory
// (not even one sequence fits).
void choose_parts(Run& run);

}  // namespace tg
