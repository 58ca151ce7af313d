#include "recipes/recipe.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <utility>

namespace tg {

namespace {

const Recipe& recipe_named(RecipeChoice choice) {
  switch (choice) {
    case RecipeChoice::record:
      return kRecord;
    case RecipeChoice::speedrun:
      return kSpeedrun;
    case RecipeChoice::last_record:
      return kLastRecord;
    case RecipeChoice::speedrun_43:
      return kSpeedrun43;
    case RecipeChoice::speedrun_89:
      return kSpeedrun89;
    case RecipeChoice::speedrun_91:
      return kSpeedrun91;
    case RecipeChoice::automatic:
      break;
  }
  assert(!"RECIPE=auto is resolved where settings are read");
  std::abort();
}

}  // namespace

const Recipe& recipe_of(const Settings& settings) {
  return recipe_named(settings.model.recipe);
}

void set_recipe_defaults(RecipeChoice choice, Settings& settings) {
  recipe_named(choice).set_defaults(settings);
}

Settings recipe_defaults(const Settings& settings) {
  Settings defaults;
  recipe_of(settings).set_defaults(defaults);
  return defaults;
}

bool rename_each(NamedTensors& tensors, bool (*is_own)(std::string_view name), AddRenamed add) {
  if (std::ranges::none_of(tensors, is_own, &NamedTensors::value_type::first)) return false;
  NamedTensors renamed;
  for (const auto& [name, tensor] : tensors) {
    if (!add(name, tensor, renamed)) renamed.emplace_back(name, tensor);
  }
  tensors = std::move(renamed);
  return true;
}

ParameterTable make_parameters(const ModelSpec& spec, const Settings& settings,
                               at::ScalarType storage, at::Device device) {
  return make_parameters(spec.parameters, storage, device,
                         settings.averaging.control_tensor_name_patterns);
}

}  // namespace tg
