#pragma once
// A recipe is a model and the way it is trained, as one of the speedruns' scripts has them. Each is
// a file of this folder, which RECIPE chooses by its name.
#include <vector>

#include "config/settings.h"
#include "model/declarations.h"
#include "model/draws.h"
#include "model/parameters.h"
#include "model/plan.h"

namespace tg {

// A model as data.
struct ModelSpec {
  std::vector<Declaration> parameters;  // the rows of make_parameters()
  std::vector<Draw> draws;              // of their initial values, in this order
  Plan plan;                            // what is computed with them
};

// The line that a script prints of the score of the averaged weights.
struct ScoreLine {
  const char* line_name;  // in log.txt
  const char* name;       // in metrics.jsonl
  int digits;
};

// Weights that a script saved.
struct ScriptWeights {
  const char* script = nullptr;
  // Gives them the names and shapes of the model → whether they were the script's. Null: it has the
  // same.
  bool (*rename)(NamedTensors& tensors) = nullptr;
};

struct Recipe {
  // Sets what the script has otherwise than the program's defaults.
  void (*set_defaults)(Settings& settings);
  ModelSpec (*model)(const Settings& settings);
  ScoreLine average_score = {"DIAGNOSTIC post_ema", "DIAGNOSTIC_post_ema", 4};
  // The warm-up's steps clip gradients and warm the momentum up, as a run's do.
  bool warms_up_as_it_trains = false;
  // RECORD_QUIRKS=1: on several ranks the warm-up's rewind leaves the momentum of Muon's shards.
  bool keeps_warm_up_momentum = false;
  // A validation before the first step of a stage is in that stage; else in the one before.
  bool stage_precedes_validation = false;
  ScriptWeights script_weights{};
};

extern const Recipe kRecord, kSpeedrun, kLastRecord, kSpeedrun43;

// The recipe of settings whose RECIPE is resolved (resolved_recipe()).
const Recipe& recipe_of(const Settings& settings);
inline ModelSpec model_spec(const Settings& settings) {
  return recipe_of(settings).model(settings);
}
// For parse_settings().
void set_recipe_defaults(RecipeChoice choice, Settings& settings);
// What the recipe of `settings` has where nothing is given.
Settings recipe_defaults(const Settings& settings);

// The uninitialised parameters of `spec`, as make_parameters() of model/declarations.h, with
// CONTROL_TENSOR_NAME_PATTERNS.
ParameterTable make_parameters(const ModelSpec& spec, const Settings& settings,
                               at::ScalarType storage, at::Device device);

}  // namespace tg
