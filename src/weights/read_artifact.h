#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "weights/named_tensors.h"

namespace tg {

// The weights of a quantised artifact, dequantised: fp32 on the CPU, in the file's order. Of any
// format, by content, whether this program or the Python scripts wrote it. Executes nothing of it;
// lrzip, a program of its own with limits, unpacks the streams of pergroup.h. A file that holds
// more than `max_elements` (the model's parameters) is refused, before it takes more memory than a
// small multiple of their fp32 bytes. Errors: missing_input (also lrzip), io, bad_data.
NamedTensors read_artifact(const std::string& path, int64_t max_elements);
// The same file's tensors as they are stored: NAME.q and NAME.scale of a quantised one (and
// what gptq_value.h lists), NAME of another. `max_bytes`: of what it unpacks to. Errors: as above.
NamedTensors read_stored_artifact(const std::string& path, size_t max_bytes);

// Whether a file that begins so is a torch.save archive in brotli, which has no magic.
bool is_brotli_archive(std::string_view begin);

}  // namespace tg
