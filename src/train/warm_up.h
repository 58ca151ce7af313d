#pragma once
#include "train/run.h"

namespace tg {

// GRAD_ACCUM_STEPS=auto: splits each micro-batch into the fewest equal chunks whose passes fit in
// the GPU's memory besides all other allocations of training (averages, update), measured with real
// passes; into one chunk on a CPU, where nothing is measured. Does not change weights, optimizer or
// loader. All ranks use the number of the rank with the least memory. Collective. Throws
// ExitCode::memory if not even one sequence fits.
void choose_parts(Run& run);

// Runs WARMUP_STEPS real steps at the base learning rates and without clipping, as the reference
// implementation does, so that kernels are chosen and memory is allocated before the clock starts,
// and restores the state. A resuming run takes at most two steps, which choose and allocate the
// same. Collective.
void warm_up(Run& run);

}  // namespace tg
