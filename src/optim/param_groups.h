#pragma once
#include "config/settings.h"
#include "model/parameters.h"

namespace tg {

struct GroupRate {
  double lr;            // base rate
  double weight_decay;  // decoupled
};

// The settings that step a group; zero for `none`. `tied`: TIE_EMBEDDINGS.
GroupRate rate_of(ParamGroup group, const OptimConfig& optim, bool tied);

}  // namespace tg
