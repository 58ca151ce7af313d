#include "commands/script_settings.h"

#include <algorithm>

#include "config/types/text.h"
#include "recipes/recipe.h"
#include "weights/foreign_weights.h"
#include "weights/script_names.h"
#include "weights/weights_file.h"
#include "weights/wrapped_names.h"

namespace tg {
namespace {

constexpr std::int64_t kHeadChannels = 128;

}  // namespace

std::vector<Assignment> script_settings(const ModelPath& model) {
  if (model.kind != ModelKind::file || model.artifact != Artifact::none) return {};
  auto tensors = load_weights(model.path).tensors;
  unwrap_names(tensors, model.path);
  refuse_foreign_names(tensors, model.path);
  const auto sizes = script_model(tensors);
  if (!sizes) return {};
  Settings settings;
  set_recipe_defaults(RecipeChoice::speedrun, settings);
  auto& config = settings.model;
  config.recipe = RecipeChoice::speedrun;
  config.vocab_size = sizes->vocabulary;
  config.num_layers = sizes->layers;
  config.model_dim = sizes->channels;
  config.num_heads = config.num_kv_heads =
      std::max<std::int64_t>(1, sizes->channels / kHeadChannels);
  config.mlp_mult = static_cast<double>(sizes->hidden / sizes->channels);
  std::vector<Assignment> lines = {{"TOKENIZER_PATH", settings.data.tokenizer_path, 0},
                                   {"TRAIN_SEQ_LEN", value_text(settings.run.train_seq_len), 0}};
  for_each_setting(config, [&](const auto& setting) {
    lines.push_back({env_name(setting.name), value_text(setting.value), 0});
  });
  return lines;
}

}  // namespace tg
