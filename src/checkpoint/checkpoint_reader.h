#pragma once
#include <string>

#include "checkpoint/checkpoint_manifest.h"
#include "weights/safetensors/safetensors.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Reads the tensors of all files that the manifest lists, or only the tensors whose names are
// `wanted`, as contiguous CPU tensors. Reads every byte once, with report_progress(), and hashes it
// as it is read: the returned bytes are the verified ones. Opens all files before it reads the
// first, so a run may remove the checkpoint meanwhile. Throws Error: bad_data, naming the file,
// expected and found, if a file is missing, truncated or changed; io.
NamedTensors read_checkpoint(const std::string& folder, const Manifest& manifest,
                             const NameFilter& wanted = {});

}  // namespace tg
