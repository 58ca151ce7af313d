#include "recipes/own_layers.h"

#include <map>

#include "base/error.h"
#include "base/is_in.h"
#include "config/derived.h"
#include "config/types/text.h"

namespace tg {

namespace {

std::map<std::string, std::string> texts_of(const ModelConfig& config) {
  std::map<std::string, std::string> texts;
  ModelConfig::visit(config, [&](const char* name, const auto& value, auto&&...) {
    texts[env_name(name)] = value_text(value);
  });
  return texts;
}

}  // namespace

void require_own_layers(const Settings& settings, void (*set_defaults)(Settings&),
                        const std::vector<std::string>& free) {
  const auto& config = settings.model;
  const auto recipe = choice_name(config.recipe);
  Settings own;
  set_defaults(own);
  const auto expected = texts_of(own.model);
  for (const auto& [name, text] : texts_of(config)) {
    REQUIRE(is_in(free, name) || text == expected.at(name), ExitCode::config,
            "{}={}: RECIPE={} has its own layers (expected {}); leave it out", name, text, recipe,
            expected.at(name));
  }
  REQUIRE(config.num_kv_heads == config.num_heads, ExitCode::config,
          "NUM_KV_HEADS={}: RECIPE={} has a key head for each query head (expected NUM_HEADS={})",
          config.num_kv_heads, recipe, config.num_heads);
  REQUIRE(qk_head_dim(config) % 4 == 0, ExitCode::config,
          "MODEL_DIM={} with NUM_HEADS={} and QK_HEAD_DIM={}: RECIPE={} rotates a quarter of a "
          "head's channels with another (expected heads of a multiple of 4, found {})",
          config.model_dim, config.num_heads, config.qk_head_dim, recipe, qk_head_dim(config));
  const auto& optim = settings.optim;
  REQUIRE(optim.untie_embeddings_at == 0 || (optim.untie_embeddings_at + 1) % optim.adam_every == 0,
          ExitCode::config,
          "UNTIE_EMBEDDINGS_AT={}: not a step that updates the embeddings (expected one before a "
          "multiple of ADAM_EVERY={})",
          optim.untie_embeddings_at, optim.adam_every);
}

}  // namespace tg
