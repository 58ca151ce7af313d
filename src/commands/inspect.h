#pragma once
#include <string>

namespace tg {

// `train_gpt inspect [--quantization] FILE`: prints inspect_text. Errors: usage, those of
// inspect_text, io (standard output).
void inspect_command(int argc, const char* const* argv);

// The format of a weights file, and of each tensor its name, dtype, shape, elements, bytes, and the
// minimum, maximum and root mean square of its finite elements; totals by dtype; with
// `quantization` quantization_text; the settings in the config.json of its run, if that is beside
// it. Errors: missing_input, io, bad_data; usage (`quantization` of an artifact).
std::string inspect_text(const std::string& path, bool quantization = false);

}  // namespace tg
