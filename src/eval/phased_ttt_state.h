#pragma once
// What phased test-time training needs to go on after a stop, in a file.
#include <string>

#include "config/phased_ttt_config.h"
#include "weights/named_tensors.h"
#include "weights/safetensors.h"

namespace tg {

// Of names and values, such as "0123456789abcdef".
std::string digest_of(const NamedTensors& tensors);

// What a state depends on, a text by its name: the settings and `others`.
Metadata ttt_origin(PhasedTttConfig config, Metadata others);

// All tensors are of floating-point dtypes. Atomically. Errors: cannot_create, io.
void save_ttt_state(const std::string& path, const NamedTensors& state, const Metadata& origin);
// Copies the file's tensors into those of `state`, which have its names and shapes. Errors:
// missing_input, io; bad_data; config (the file is of another origin).
void load_ttt_state(const std::string& path, NamedTensors& state, const Metadata& origin);

}  // namespace tg
