// Record 89 of the GPT-124M speedrun, of 2026-08-01: 1,285 steps, 339 million tokens, to a
// validation loss of 3.28. Its 11 layers differ from each other, so their number is fixed.
#include "recipes/speedrun_89.h"

#include "base/error.h"
#include "config/derived.h"
#include "config/types/choices.h"
#include "recipes/own_layers.h"
#include "recipes/recipe.h"

namespace tg {

namespace record_89 {

void set_defaults(Settings& s) {
  // Starts of the second and third stage and of the extension.
  constexpr double kSecond = 423, kThird = 847, kExtension = 1270;
  set_common_defaults(s, kSecond, kThird, kExtension);
  s.data.segment_limit = {.value = CountSchedule({{896, 0}, {2048, kSecond}})};

  auto& model = s.model;
  model.recipe = RecipeChoice::speedrun_89;
  model.num_layers = kBlocks;
  model.bigram_vocab_size = 377280;
  model.bigram_dim = 768;
  model.unet_skips = false;
  auto& objective = model.objective;
  objective.logit_softcap = 11.5;  // 23·σ((z + 5)/7.5) is 11.5 + 11.5·tanh((z + 5)/15)
  objective.logit_softcap_shift = 5;
  objective.logit_softcap_temperature = 15;
  objective.mtp_weights = RampSchedule(
      {{{{1, 1}, {0.5, 0.5}, {0.25, 0}}, 0}, {{{1, 1}, {0.5, 0}}, kSecond}, {{{1, 1}}, kThird}});
  objective.prefix_weight =
      RampSchedule({{{{0.25, 0.25}}, 0}, {{{0.25, 0}}, kSecond}, {{{0, 0}}, kThird}});

  auto& run = s.run;
  run.iterations = 1285;
  run.schedule_iterations = 1270;
  run.warmdown_frac = {.value = 0.6};
  run.warmdown_whole_steps = true;
  run.lr_floor = 0.15;
  run.lr_scale = NumberSchedule({{1, 0}, {1.52, kSecond}, {1.73, kThird}});
  run.train_batch_tokens = CountSchedule({{131072, 0}, {262144, kSecond}, {393216, kThird}});

  auto& optim = s.optim;
  optim.matrix_lr = 0.023;
  optim.muon_beta2 = 0.9;
  optim.adam_eps = 1e-10;
  optim.adam_wd = 0.005;
  optim.untie_embeddings_at = 847;
}

ModelSpec model(const Settings& settings, void (*own_defaults)(Settings&)) {
  require_own_layers(settings, own_defaults,
                     {"QK_HEAD_DIM", "BIGRAM_VOCAB_SIZE", "BIGRAM_DIM", "BIGRAM_SIGN_ROWS",
                      "MUDD_DIM", "DC_WINDOW"});
  const auto& model = settings.model;
  REQUIRE(model.bigram_dim == model.model_dim, ExitCode::config,
          "BIGRAM_DIM={}: RECIPE={} adds the bigram embedding to all channels (expected "
          "MODEL_DIM={})",
          model.bigram_dim, choice_name(model.recipe), model.model_dim);
  REQUIRE(settings.runtime.activation_recompute != ActivationRecompute::block, ExitCode::config,
          "ACTIVATION_RECOMPUTE=block: the blocks of RECIPE={} read states of others, so that none "
          "is recomputed alone; set it to light, for the MLPs' activations",
          choice_name(model.recipe));
  REQUIRE(qk_head_dim(model) <= head_dim(model), ExitCode::config,
          "QK_HEAD_DIM={}: expected at most the {} channels of a value head", model.qk_head_dim,
          head_dim(model));
  return spec(settings);
}

}  // namespace record_89

const Recipe kSpeedrun89{
    .set_defaults = record_89::set_defaults,
    .model =
        [](const Settings& settings) {
          return record_89::model(settings, record_89::set_defaults);
        },
    .stage_precedes_validation = true,
    .script_weights = {"record 89's script", record_89::rename_script_weights}};

}  // namespace tg
