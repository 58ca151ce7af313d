#pragma once
// A model's tensors quantised for an artifact of GPTQ.
#include <vector>

#include "config/settings.h"
#include "model/parameters.h"
#include "ops/quantize/hessian_factor.h"
#include "run_log/events.h"
#include "weights/artifact/write_artifact_gptq.h"

namespace tg {

struct GptqModel {
  std::vector<GptqTensor> tensors;
  WeightsQuantized event;
};

// Quantises the exported parameters on their device, as the last record's script does: gates of
// attention in int8 with GATED_ATTN_QUANT_GATE; other tensors of up to 65,536 elements and control
// tensors as fp16; the rest by GPTQ, token tables and heads in EMBED_BITS, else in MATRIX_BITS. A
// table without a Hessian, which no GEMM reads, is rounded to nearest. Weights of inputs that were
// always 0 are rounded to nearest or, with `record_quirks`, become 0; a warning counts their
// matrices. A Hessian that the caller does not hold is freed once its matrices' factor is computed.
// Throws Error(internal) for a Hessian or a weight that is not finite.
GptqModel quantize_by_gptq(const ParameterTable& table, Hessians hessians, const GptqConfig& config,
                           bool record_quirks = false);

}  // namespace tg
