// Record 43 of the GPT-124M speedrun, of 2025-11-10: 2,245 steps of 262,144 tokens to a validation
// loss of 3.28. Its 12 layers differ from each other, so their number is fixed.
#include "recipes/speedrun_43.h"

#include "recipes/own_layers.h"
#include "recipes/recipe.h"

namespace tg {

namespace {

using namespace record_43;

void set_defaults(Settings& s) {
  set_common_defaults(s, /*second=*/735, /*third=*/1470, /*extension=*/2205);
  s.data.segment_limit = {.value = 2048};

  auto& model = s.model;
  model.recipe = RecipeChoice::speedrun_43;
  model.num_layers = kBlocks;
  model.bigram_vocab_size = 0;
  model.objective.logit_softcap = 15;  // 30·σ(z/7.5) is 15 + 15·tanh(z/15)
  model.gates.head_gate = HeadGateKind::sparse;

  auto& run = s.run;
  run.iterations = 2245;
  run.schedule_iterations = 2205;
  run.warmdown_frac = {.value = 0.5};
  run.lr_floor = 0.1;
  run.train_batch_tokens = 262144;

  auto& optim = s.optim;
  optim.matrix_lr = 0.03;
  optim.beta1 = 0.65;
  optim.adam_wd = 0;
}

ModelSpec model(const Settings& settings) {
  require_own_layers(settings, set_defaults,
                     {"NUM_HEADS", "NUM_KV_HEADS", "SPARSE_ATTN_GATE_SCALE"});
  return spec(settings);
}

}  // namespace

const Recipe kSpeedrun43{.set_defaults = set_defaults,
                         .model = model,
                         .stage_precedes_validation = true,
                         .script_weights = {"record 43's script", rename_script_weights}};

}  // namespace tg
