#pragma once
#include <cstdint>

#include "model/plan.h"

namespace tg {

// FLOPs of training on one token: 6 per weight of every GEMM, plus attention over `context` tokens
// or the layer call's window.
double training_flops_per_token(const Plan& plan, const Pass& pass, std::int64_t context);

}  // namespace tg
