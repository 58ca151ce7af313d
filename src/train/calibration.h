#pragma once
// The Hessians that ARTIFACT=gptq quantises by, from training tokens.
#include <functional>

#include "comm/communicator.h"
#include "config/settings.h"
#include "data/token_source.h"
#include "eval/hessians.h"
#include "process/machine.h"
#include "run_log/events.h"
#include "train/run_parts.h"

namespace tg {

// Of the model as it is, over GPTQ_CALIBRATION_BATCHES batches of each rank of about
// TRAIN_BATCH_TOKENS/8 tokens, in rows of TRAIN_SEQ_LEN. Emits a HessiansCollected. Collective: the
// same on every rank; a warning says that a rank's rows repeat. Errors: those of CalibrationRows.
Hessians calibrate(const Settings& settings, const Machine& machine, Communicator& communicator,
                   ModelParts& weights, const TokenSource& train,
                   const std::function<void(const RunEvent&)>& emit);

}  // namespace tg
