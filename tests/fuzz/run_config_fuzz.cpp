// The config.json of a run or of transformers, as eval, sample, quantize, export and inspect read
// it.
#include <nlohmann/json.hpp>

#include "commands/hf_config.h"
#include "config/resolved.h"
#include "tests/fuzz/assigned.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {settings_json({}, {}).dump(),
          R"({"settings":{"MODEL_DIM":512,"VE_LAYERS":[9,10],"QK_GAIN_INIT":1.5,"TIE_EMBEDDINGS":)"
          R"(true,"DEVICE":"cpu","GONE":null,"ODD":{"a":[1]}},"origins":{"MODEL_DIM":"flag"}})",
          hf_config({}, "modeling").dump()};
}

void read(std::string_view bytes) {
  auto config = nlohmann::json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (is_hf_config(config)) config = config_of_hf(std::move(config), "folder");
  changed_settings_text(config);
  if (const auto settings = model_settings(config)) assigned(*settings);
}

}  // namespace tg::fuzz
