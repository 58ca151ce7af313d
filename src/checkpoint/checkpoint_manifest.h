#pragma once
// manifest.json: the files of a checkpoint's folder, with sizes and hashes. Written last, so a
// folder with a manifest was complete; the sizes and hashes tell whether it still is.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model_record.h"
#include "files/file_digest.h"

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

}  // namespace tg
