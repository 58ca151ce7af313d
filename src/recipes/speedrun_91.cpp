// Record 91 of the GPT-124M speedrun, of 2026-09-18: record 89 with narrower heads of queries and
// keys, output projections that are stored transposed, 15 steps more, and a validation without the
// tokens that GPT-2's tokenizer never writes.
#include <cmath>

#include "recipes/recipe.h"
#include "recipes/speedrun_89.h"

namespace tg {

namespace {

void set_defaults(Settings& s) {
  record_89::set_defaults(s);
  s.model.recipe = RecipeChoice::speedrun_91;
  s.model.qk_head_dim = 96;
  s.model.windows.attention_scale = 0.1 * std::sqrt(128. / 96);
  s.run.iterations = 1300;
  s.run.validation_mask = true;
}

bool rename_script_weights(NamedTensors& tensors) {
  if (!record_89::rename_script_weights(tensors)) return false;
  for (auto& [name, tensor] : tensors) {
    if (name.ends_with(".attn.proj.weight")) tensor = tensor.t();
  }
  return true;
}

}  // namespace

const Recipe kSpeedrun91{
    .set_defaults = set_defaults,
    .model = [](const Settings& settings) { return record_89::model(settings, set_defaults); },
    .stage_precedes_validation = true,
    .script_weights = {"record 91's script", rename_script_weights}};

}  // namespace tg
