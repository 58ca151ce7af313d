#pragma once
#include <cstdint>

#include "config/settings.h"
#include "model/plan.h"

namespace tg {

// Floating-point operations of training on one token: 6 for each weight of a product, and those of
// attention that spans `context` tokens or a visit's window.
double training_flops_per_token(const ModelConfig& model, const Pass& pass, std::int64_t context);

}  // namespace tg
