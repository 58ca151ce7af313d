#pragma once
// What phased test-time training needs to go on after a stop, in a file.
#include <string>

#include "config/phased_ttt_config.h"
#include "weights/named_tensors.h"

namespace tg {

// What a state depends on.
struct TttStateOrigin {
  PhasedTttConfig config{};
  std::int64_t seed = 0, documents = 0, predictions = 0;
  int world_size = 1;
};

// All tensors are of floating-point dtypes. Atomically. Errors: cannot_create, io.
void save_ttt_state(const std::string& path, const NamedTensors& state,
                    const TttStateOrigin& origin);
// Copies the file's tensors into those of `state`, which have its names and shapes. Errors:
// missing_input, io; bad_data; config (the file is of another origin or model).
void load_ttt_state(const std::string& path, NamedTensors& state, const TttStateOrigin& origin);

}  // namespace tg
