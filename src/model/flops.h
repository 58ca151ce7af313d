#pragma once
#include <cstdint>

#include "model/plan.h"

namespace tg {

// Floating-point operations of training on one token in a pass of the plan: 6 for each weight of a
// GEMM, and attention's, which spans `context` tokens or a visit's window.
double training_flops_per_token(const Plan& plan, const Pass& pass, std::int64_t context);

}  // namespace tg
