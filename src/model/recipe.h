#pragma once
#include <vector>

#include "config/settings.h"
#include "model/declarations.h"
#include "model/draws.h"
#include "model/plan.h"

namespace tg {

// Parameters that files of other programs and older checkpoints are recognised by.
inline constexpr const char kTokenTable[] = "tok_emb.weight", kHead[] = "lm_head.weight";

inline constexpr const char kLanePost[] = "parallel_post_lambdas",
                            kLaneResidual[] = "parallel_resid_lambdas";

// All that tells one model from another: its parameters, the order in which their initial values
// are drawn, and what is computed with them.
struct Recipe {
  std::vector<Declaration> parameters;  // the rows of make_parameters()
  std::vector<Draw> draws;
  Plan plan;
};

// The recipe of the record, the GPT-124M speedrun and the last record, with every part in which
// they differ a setting.
Recipe make_recipe(const ModelConfig& config, const ParameterOptions& options = {});

}  // namespace tg
