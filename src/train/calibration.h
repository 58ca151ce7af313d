#pragma once
// Collects the Hessians for ARTIFACT=gptq from training tokens.
#include <functional>

#include "comm/communicator.h"
#include "config/settings.h"
#include "data/token_source.h"
#include "eval/hessians.h"
#include "process/machine.h"
#include "run_log/events.h"
#include "train/run_parts.h"

namespace tg {

// Runs the current model over GPTQ_CALIBRATION_BATCHES batches on each rank, of about
// TRAIN_BATCH_TOKENS/8 tokens in rows of TRAIN_SEQ_LEN, and emits a HessiansCollected. Warns if a
// rank's rows repeat. Collective: all ranks return equal Hessians. Throws the errors of
// CalibrationRows.
Hessians calibrate(const Settings& settings, const Machine& machine, Communicator& communicator,
                   ModelParts& weights, const TokenSource& train,
                   const std::function<void(const RunEvent&)>& emit);

}  // namespace tg
