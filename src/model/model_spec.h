#pragma once
#include <vector>

#include "model/declarations.h"
#include "model/draws.h"
#include "model/plan.h"

namespace tg {

// A model as data, which a recipe (recipes/recipe.h) makes of the settings.
struct ModelSpec {
  std::vector<Declaration> parameters;  // the rows of make_parameters()
  std::vector<Draw> draws;              // of their initial values, in this order
  Plan plan;                            // what is computed with them
};

}  // namespace tg
