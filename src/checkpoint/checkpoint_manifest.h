#pragma once
// manifest.json lists the files of a checkpoint's folder, with sizes and hashes. Written last, so a
// folder with a manifest was complete; the sizes and hashes tell whether it still is.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model_record.h"
#include "files/file_digest.h"
#include "weights/safetensors/safetensors.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

struct CheckpointFile {
  std::string name;  // file name in the checkpoint's folder: letters, digits, "._-"
  FileDigest digest;
};

struct Manifest {
  std::int64_t step = 0;
  std::int64_t world_size = 1;         // ranks of the run that saved it
  std::string program = {};            // version text
  std::optional<ModelRecord> model{};  // absent if an older program saved it
  std::map<std::string, std::string> settings{};
  std::vector<CheckpointFile> files{};
};

// Writes FOLDER/manifest.json through AtomicFile. Throws Error: cannot_create, io.
void write_manifest(const std::string& folder, const Manifest& manifest);
// Throws Error: missing_input if the folder or its manifest is missing; bad_data if the manifest is
// malformed, has another format, or lists a file twice or with a path; io.
Manifest read_manifest(const std::string& folder);

// Reads the tensors of all files that the manifest lists, or only the tensors whose names are
// `wanted`, as contiguous CPU tensors. Reads every byte once, with report_progress(), and hashes it
// as it is read: the returned bytes are the verified ones. Opens all files before it reads the
// first, so a run may remove the checkpoint meanwhile. Throws Error: bad_data, naming the file,
// expected and found, if a file is missing, truncated or changed; io.
NamedTensors read_checkpoint(const std::string& folder, const Manifest& manifest,
                             const NameFilter& wanted = {});

}  // namespace tg
