#pragma once
#include <cstdint>

#include "model/plan.h"

namespace tg {

// Floating-point operations of training on one token in a pass of the plan: 6 per weight of a GEMM,
// and attention's over `context` tokens or a call's window.
double training_flops_per_token(const Plan& plan, const Pass& pass, std::int64_t context);

}  // namespace tg
