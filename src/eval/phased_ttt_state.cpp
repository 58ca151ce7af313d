#include "eval/phased_ttt_state.h"

#include "base/error.h"
#include "base/escaped.h"
#include "config/entry.h"
#include "weights/safetensors.h"
#include "weights/weights_file.h"

namespace tg {

namespace {

Metadata lines_of(TttStateOrigin origin) {
  Metadata lines{{"SEED", std::to_string(origin.seed)},
                 {"documents", std::to_string(origin.documents)},
                 {"predictions", std::to_string(origin.predictions)},
                 {"ranks", std::to_string(origin.world_size)}};
  for (const auto& entry : entries_of(origin.config)) lines[env_name(entry.member)] = entry.value;
  return lines;
}

}  // namespace

void save_ttt_state(const std::string& path, const NamedTensors& state,
                    const TttStateOrigin& origin) {
  save_safetensors(path, state, lines_of(origin));
}

void load_ttt_state(const std::string& path, NamedTensors& state, const TttStateOrigin& origin) {
  Metadata found;
  const auto tensors = load_safetensors(path, &found);
  for (const auto& [name, expected] : lines_of(origin)) {
    REQUIRE(found[name] == expected, ExitCode::config,
            "{}: this state of test-time training is of another run (expected {}={}, found {}); "
            "go on with those settings, or remove the file to begin anew",
            path, name, expected, escaped(found[name]));
  }
  copy_into(tensors, state, path, ExitCode::config);
}

}  // namespace tg
