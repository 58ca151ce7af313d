#pragma once
// manifest.json: what a checkpoint's folder must contain. Written last, so that a folder with a
// manifest was complete; its sizes and hashes say whether it still is.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model_record.h"
#include "files/file_digest.h"

namespace tg {

struct CheckpointFile {
  std::string name;  // in the checkpoint's folder; letters, digits, "._-"
  FileDigest digest;
};

struct Manifest {
  std::int64_t step = 0;
  std::int64_t world_size = 1;         // of the run that saved it
  std::string program = {};            // version text
  std::optional<ModelRecord> model{};  // absent where an older program saved it
  std::map<std::string, std::string> settings{};
  std::vector<CheckpointFile> files{};
};

// FOLDER/manifest.json, through AtomicFile. Errors: cannot_create, io.
void write_manifest(const std::string& folder, const Manifest& manifest);
// Errors: missing_input (no such folder, or no manifest in it); bad_data (not as written by
// write_manifest, another format, a file's name twice or with a path); io.
Manifest read_manifest(const std::string& folder);

}  // namespace tg
