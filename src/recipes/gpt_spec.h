#pragma once
// The GPT that three recipes share: all differences between them are settings, which any of them
// can enable.
#include "recipes/recipe.h"

namespace tg {

// Parameters by which checkpoints of other programs and older ones are recognised.
inline constexpr const char kTokenTable[] = "tok_emb.weight", kHead[] = "lm_head.weight";

inline constexpr const char kLanePost[] = "parallel_post_lambdas",
                            kLaneResidual[] = "parallel_resid_lambdas";

// Differences between these recipes that are not settings.
struct GptRecipe {
  // The script's draws, followed by draws of parts that the script does not have.
  std::vector<Draw> (*draws)(const Plan& plan, const ModelConfig& config);
  InitDist matrices = InitDist::orthogonal;  // of queries, keys, values and the MLP's first matrix
  // Reference bug, kept with RECORD_QUIRKS=1: an untied head is in no optimizer. Heads of
  // multi-token prediction are in none in any of these recipes.
  bool forgets_untied_head = false;
};

constexpr Initial constant(double number) {
  return {InitDist::constant, number};
}

inline Softcap softcap_of(const ObjectiveConfig& objective) {
  return {objective.logit_softcap, objective.logit_softcap_shift,
          objective.logit_softcap_temperature};
}

ModelSpec gpt_spec(const Settings& settings, const GptRecipe& recipe);

// Its forward pass, a Flow. A layer call computes
//   h = m0·(x + w·skip) + m1·x0, or with gates as in LayerCall::Skip
//   h += attention(rms(h)·s),  h += mlp(rms(h)·s)
// With an update gate, the update of each token is scaled: x_in + σ(gate(x_in))·(h − x_in), where
// x_in is h after the first line. With two lanes, see LaneMix: attention reads h, the MLP lane 1.
NormedInput gpt_flow(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                     const at::Tensor& ids_bt, const at::Tensor& x0_btd);

// Appends a head gate's draws: of the weight of a Linear, or of a weight with a random Initial.
void draw_head_gate(DrawList& draw, const Gate& gate, const ModelConfig& config);

}  // namespace tg
