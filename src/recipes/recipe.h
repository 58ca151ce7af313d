#pragma once
// A recipe is a model and the way it is trained, as in one of the speedrun scripts. Each has a file
// in this folder; RECIPE selects one by name.
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"
#include "model/declarations.h"
#include "model/init.h"
#include "model/parameters.h"
#include "model/plan.h"

namespace tg {

// A model and its initialisation as data.
struct ModelSpec {
  std::vector<Declaration> parameters;  // the rows that make_parameters() allocates
  std::vector<Draw> draws;              // draws of the initial values, in order
  Plan plan;                            // the computation
};

// Name and precision of the averaged weights' score in the script's log.
struct ScoreLine {
  const char* line_name;  // in log.txt
  const char* name;       // in metrics.jsonl
  int digits;
};

// Weights saved by a script.
struct ScriptWeights {
  const char* script = nullptr;
  // Renames and reshapes the tensors to the model's; returns whether they were the script's. Null:
  // names and shapes are the same.
  bool (*rename)(NamedTensors& tensors) = nullptr;
};

struct Recipe {
  // Sets the script's settings that differ from the program's defaults.
  void (*set_defaults)(Settings& settings);
  ModelSpec (*model)(const Settings& settings);
  ScoreLine average_score = {"DIAGNOSTIC post_ema", "DIAGNOSTIC_post_ema", 4};
  // Warm-up steps clip gradients and warm up the momentum, as training steps do.
  bool warms_up_as_it_trains = false;
  // Reference bug, kept with RECORD_QUIRKS=1: after the warm-up on several ranks, the momentum of
  // Muon's shards is not reset.
  bool keeps_warm_up_momentum = false;
  // Whether a validation just before the first step of a stage already uses that stage.
  bool stage_precedes_validation = false;
  ScriptWeights script_weights{};
};

// Adds a tensor of a script to `into` under the model's names. Returns false, and adds nothing, if
// its shape is not the script's.
using AddRenamed = bool (*)(const std::string& name, const at::Tensor& tensor, NamedTensors& into);
// For ScriptWeights::rename; is_own: whether only the script has that name. A tensor of another
// shape keeps its name, so that the check of names and shapes reports the error.
bool rename_each(NamedTensors& tensors, bool (*is_own)(std::string_view name), AddRenamed add);

extern const Recipe kRecord, kSpeedrun, kLastRecord, kSpeedrun43, kSpeedrun89, kSpeedrun91;

// The recipe of `settings`. Requires a resolved RECIPE (resolved_recipe()).
const Recipe& recipe_of(const Settings& settings);
inline ModelSpec model_spec(const Settings& settings) {
  return recipe_of(settings).model(settings);
}
// Sets the defaults of a recipe, for parse_settings().
void set_recipe_defaults(RecipeChoice choice, Settings& settings);
// The default settings of the recipe of `settings`.
Settings recipe_defaults(const Settings& settings);

// Allocates the parameters of `spec`, uninitialised, with CONTROL_TENSOR_NAME_PATTERNS; see
// make_parameters() of model/declarations.h.
ParameterTable make_parameters(const ModelSpec& spec, const Settings& settings,
                               at::ScalarType storage, at::Device device);

}  // namespace tg
