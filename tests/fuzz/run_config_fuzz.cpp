// A run's config.json, as eval, sample, quantize, export and inspect read it.
#include <nlohmann/json.hpp>

#include "config/resolved.h"
#include "tests/fuzz/assigned.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {settings_json({}, {}).dump(),
          R"({"settings":{"MODEL_DIM":512,"VE_LAYERS":[9,10],"QK_GAIN_INIT":1.5,"TIE_EMBEDDINGS":)"
          R"(true,"DEVICE":"cpu","GONE":null,"ODD":{"a":[1]}},"origins":{"MODEL_DIM":"flag"}})"};
}

void read(std::string_view bytes) {
  const auto config = nlohmann::json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  changed_settings_text(config);
  if (const auto settings = model_settings(config)) assigned(*settings);
}

}  // namespace tg::fuzz
