#pragma once
// A model's tensors as an artifact of GPTQ has them.
#include <vector>

#include "config/settings.h"
#include "model/parameters.h"
#include "ops/quantize/hessian_factor.h"
#include "run_log/events.h"
#include "weights/write_artifact_gptq.h"

namespace tg {

struct GptqModel {
  std::vector<GptqTensor> tensors;
  WeightsQuantized event;
};

// Quantises what is exported, where it is, as the last record's script does: the gates of attention
// in int8 with GATED_ATTN_QUANT_GATE; what else has up to 65,536 elements, or is a control tensor,
// as fp16; the others by GPTQ, in EMBED_BITS what the other artifacts keep in eight bits (token
// tables and heads), else in MATRIX_BITS. A table without a Hessian, which no product reads, is
// rounded as it is. Weights of inputs that were always 0 are rounded each by itself or, with
// `record_quirks`, become 0; a warning says how many there are. A Hessian that the caller does not
// hold is freed once its matrices' factor is computed. Errors: internal (a Hessian or a weight is
// not finite).
GptqModel quantize_by_gptq(const ParameterTable& table, Hessians hessians, const GptqConfig& config,
                           bool record_quirks = false);

}  // namespace tg
