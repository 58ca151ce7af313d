#pragma once
#include <ATen/ATen.h>

#include "comm/communicator.h"
#include "data/calibration_rows.h"
#include "model/gpt.h"
#include "ops/quantize/hessian_factor.h"

namespace tg {

struct CalibrationOptions {
  std::int64_t batches = 0, rows_per_batch = 0;  // per rank
  bool measure_memory = false;  // choose the rows per pass by measuring the GPU's memory
  bool record_quirks = false;   // use rank 0's rows only
};

// Hessians of Q, K, V, output projection, W_up and W_down of every block, summed over its layer
// calls in the model's stage, and of the head, which may be tied. `table`: the model's parameters,
// with their current values. Sums are in fp32 (or fp64), computed by GEMMs in the dtype of the
// passes, without synchronizing with the device. Collective: all ranks return equal Hessians.
// Throws errors of `rows`.
Hessians collect_hessians(Gpt& model, const ParameterTable& table, CalibrationRows& rows,
                          const CalibrationOptions& options, Communicator& communicator);

}  // namespace tg
