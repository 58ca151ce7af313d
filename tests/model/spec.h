#pragma once
// Models of settings of the model alone, by the recipe that RECIPE=auto stands for where they name
// none.
#include <string>
#include <vector>

#include "config/derived.h"
#include "config/settings.h"
#include "model/gpt.h"
#include "model/init.h"
#include "recipes/recipe.h"

namespace tg::test {

// What the rows depend on besides the model's own settings.
struct ParameterOptions {
  std::vector<std::string> control_patterns = default_control_patterns();
  double tied_embed_init_std = OptimConfig().tied_embed_init_std;
  bool record_quirks = false;
};

inline Settings settings_of(const ModelConfig& model, const ParameterOptions& options = {}) {
  Settings settings;
  settings.model = model;
  settings.averaging.control_tensor_name_patterns = options.control_patterns;
  settings.optim.tied_embed_init_std = options.tied_embed_init_std;
  settings.runtime.record_quirks = options.record_quirks;
  settings.model.recipe = resolved_recipe(settings);
  return settings;
}

inline ModelSpec spec_of(const ModelConfig& model, const ParameterOptions& options = {}) {
  return model_spec(settings_of(model, options));
}
inline Plan plan_of(const ModelConfig& model) {
  return spec_of(model).plan;
}

inline ParameterTable make_parameters(const ModelConfig& model, at::ScalarType storage,
                                      at::Device device, const ParameterOptions& options = {}) {
  return tg::make_parameters(spec_of(model, options), settings_of(model, options), storage, device);
}
inline void initialize(ParameterTable& table, const ModelConfig& model, std::int64_t seed) {
  tg::initialize(table, spec_of(model).draws, seed);
}

}  // namespace tg::test
