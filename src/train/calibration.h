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

// Returns the Hessians of the model as it is, over GPTQ_CALIBRATION_BATCHES batches per rank of
// about TRAIN_BATCH_TOKENS/8 tokens, in rows of TRAIN_SEQ_LEN. Emits a HessiansCollected. Warns if
// a rank's rows repeat. Collective: equal on every rank. Throws what CalibrationRows throws.
Hessians calibrate(const Settings& settings, const Machine& machine, Communicator& communicator,
                   ModelParts& weights, const TokenSource& train,
                   const std::function<void(const RunEvent&)>& emit);

}  // namespace tg
