#pragma once
#include <cstdint>
#include <string>

#include "weights/named_tensors.h"

namespace tg {

// The weights of a quantised artifact, dequantised: fp32 on the CPU, in the file's order. Of either
// format, by content, whether this program or the Python scripts wrote it. Executes nothing of it.
// A file that holds more than `max_elements` (the model's parameters) is refused, before it takes
// more memory than a small multiple of their fp32 bytes. Errors: missing_input, io, bad_data.
NamedTensors read_artifact(const std::string& path, int64_t max_elements);
// The same file's tensors as they are stored: NAME.q and NAME.scale of a quantised one, NAME of
// another. `max_bytes`: of what it unpacks to. Errors: as above.
NamedTensors read_stored_artifact(const std::string& path, size_t max_bytes);

}  // namespace tg
