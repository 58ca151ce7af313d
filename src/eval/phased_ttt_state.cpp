#include "eval/phased_ttt_state.h"

#include "base/error.h"
#include "base/escaped.h"
#include "config/entry.h"
#include "files/xxh3.h"
#include "weights/weights_file.h"

namespace tg {

std::string digest_of(const NamedTensors& tensors) {
  Xxh3 digest;
  for (const auto& [name, tensor] : tensors) {
    digest.add(name.data(), name.size());
    const auto host = tensor.cpu().contiguous();
    digest.add(host.const_data_ptr(), host.nbytes());
  }
  return fmt::format("{:016x}", digest.value());
}

Metadata ttt_origin(PhasedTttConfig config, Metadata others) {
  for (const auto& entry : entries_of(config)) others[env_name(entry.member)] = entry.value;
  return others;
}

void save_ttt_state(const std::string& path, const NamedTensors& state, const Metadata& origin) {
  save_safetensors(path, state, origin);
}

void load_ttt_state(const std::string& path, NamedTensors& state, const Metadata& origin) {
  Metadata found;
  const auto tensors = load_safetensors(path, &found);
  for (const auto& [name, expected] : origin) {
    REQUIRE(found[name] == expected, ExitCode::config,
            "{}: this state of test-time training is of another run (expected {}={}, found {}); "
            "go on as that run began, or remove the file to begin anew",
            path, name, expected, escaped(found[name]));
  }
  copy_into(tensors, state, path, ExitCode::config);
}

}  // namespace tg
