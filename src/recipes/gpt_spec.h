#pragma once
// The GPT that three recipes have in common: every part in which they differ is a setting, which
// the others may turn on as well.
#include "recipes/recipe.h"

namespace tg {

// Parameters that files of other programs and older checkpoints are recognised by.
inline constexpr const char kTokenTable[] = "tok_emb.weight", kHead[] = "lm_head.weight";

inline constexpr const char kLanePost[] = "parallel_post_lambdas",
                            kLaneResidual[] = "parallel_resid_lambdas";

// What tells these recipes apart besides settings.
struct GptRecipe {
  // The draws of the script, and after them the draws of parts that it does not have.
  std::vector<Draw> (*draws)(const Plan& plan, const ModelConfig& config);
  InitDist matrices = InitDist::orthogonal;  // of queries, keys, values and the MLP's first
  // RECORD_QUIRKS=1: no optimizer has an untied head, as none has heads of multi-token prediction.
  bool forgets_untied_head = false;
};

ModelSpec gpt_spec(const Settings& settings, const GptRecipe& recipe);

// The draws of a head's gate: where it begins at random, and the weight of a Linear in any case.
void draw_head_gate(DrawList& draw, const Gate& gate, const ModelConfig& config);

}  // namespace tg
