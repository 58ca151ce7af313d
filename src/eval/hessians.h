#pragma once
#include <ATen/ATen.h>

#include "comm/communicator.h"
#include "data/calibration_rows.h"
#include "model/gpt.h"
#include "ops/quantize/hessian_factor.h"

namespace tg {

struct CalibrationOptions {
  std::int64_t batches = 0, rows_per_batch = 0;  // of each rank
  bool measure_memory = false;  // as many rows at once as, measured, fit in the GPU's memory
  bool record_quirks = false;   // of rank 0's rows alone
};

// Returns the Hessians of the inputs of Q, K, V, output projection, W_up and W_down at each layer
// call in the model's stage, and of the head, which may be the token table. `table`: the model's
// parameters, as they are now. Sums are fp32 (fp64 for fp64), by GEMMs in the dtype of the passes;
// the host does not wait. Collective: equal on every rank. Throws what `rows` throws.
Hessians collect_hessians(Gpt& model, const ParameterTable& table, CalibrationRows& rows,
                          const CalibrationOptions& options, Communicator& communicator);

}  // namespace tg
