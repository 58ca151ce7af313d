#pragma once
#include <string>

#include "checkpoint/checkpoint_manifest.h"
#include "weights/named_tensors.h"
#include "weights/safetensors.h"

namespace tg {

// The tensors of all files that the manifest lists, or those whose names are `wanted`, as
// contiguous CPU tensors. Every byte is read once, with report_progress(), and hashed as it is
// read: the bytes that are returned are those that were verified. All files are open before the
// first is read, so that a run may remove the checkpoint meanwhile. Errors: bad_data naming the
// file, expected and found, where one is missing, cut or changed; io.
NamedTensors read_checkpoint(const std::string& folder, const Manifest& manifest,
                             const NameFilter& wanted = {});

}  // namespace tg
