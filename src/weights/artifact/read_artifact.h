#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "weights/tensors/named_tensors.h"

namespace tg {

// Reads the weights of a quantized artifact, dequantized: fp32 on the CPU, in the file's order. The
// format is recognized by content, whether this program or the Python scripts wrote it. Executes
// nothing from the file; lrzip, an external program run with limits, unpacks the streams of
// pergroup.h. Throws Error(bad_data), before using more memory than a small multiple of the fp32
// weights, if the file has more than `max_elements` (the model's parameters); Error(missing_input),
// also for lrzip; Error(io).
NamedTensors read_artifact(const std::string& path, int64_t max_elements);
// Reads the tensors as stored: NAME.q and NAME.scale of a quantized tensor (and what gptq_value.h
// lists), NAME of another. `max_bytes` limits the decompressed size. Throws what read_artifact()
// throws.
NamedTensors read_stored_artifact(const std::string& path, size_t max_bytes);

// Returns whether a file with this beginning is a brotli-compressed torch.save archive; brotli has
// no magic number.
bool is_brotli_archive(std::string_view begin);

}  // namespace tg
