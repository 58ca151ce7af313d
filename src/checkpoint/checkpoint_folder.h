#pragma once
// Folders of checkpoints. ROOT/step-00000100/ is a complete checkpoint: manifest.json and the files
// that it lists. Ranks write it as ROOT/.step-00000100.tmp/ and rename it once it is complete, so a
// process killed at any time leaves no incomplete folder under a checkpoint's name.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_manifest.h"

namespace tg {

std::string checkpoint_folder(const std::string& root, std::int64_t step);
// Returns the steps of complete checkpoints by their folders' names, newest first; none if ROOT is
// missing. Does not look at their files: read_checkpoint(). Throws Error(io).
std::vector<std::int64_t> checkpoint_steps(const std::string& root);

// Creates the temporary folder of a checkpoint and its parents; returns its path. Ranks may call it
// concurrently. Throws Error: cannot_create; io if the disk is full or broken.
std::string begin_checkpoint(const std::string& root, std::int64_t step);
// Writes the manifest and renames the temporary folder of begin_checkpoint() to the checkpoint of
// manifest.step, replacing an existing one. Precondition: all files are in the folder. Durable when
// it returns. Throws Error: cannot_create; io, also if a file that the manifest lists is missing or
// has another size. No incomplete folder has a checkpoint's name after an error either.
void publish_checkpoint(const std::string& root, const Manifest& manifest);

// Removes all but the newest `keep` checkpoints, and all but the newest `keep` that
// set_aside_newer() has renamed. Warns about folders that cannot be removed.
void prune_checkpoints(const std::string& root, std::size_t keep);
// Renames the checkpoints of later steps to abandoned-step-00000200, replacing a folder of that
// name, when a run resumes from `step`. Warns about folders that cannot be renamed.
void set_aside_newer(const std::string& root, std::int64_t step);
// Removes the temporary folders of killed or failed saves. Call it before checkpoint_steps(): a
// checkpoint that was being replaced gets its name back. Precondition: no rank is saving. Warns
// about folders that cannot be removed.
void remove_incomplete_checkpoints(const std::string& root);

// ROOT/finished.json: the run of these checkpoints reached one of its limits at `step` and
// completed its results.
struct Finished {
  std::int64_t step = 0;
  std::int64_t iterations = 0;
  double max_wallclock_seconds = 0;
};

// Creates ROOT if it is missing. Throws Error: cannot_create, io.
void write_finished(const std::string& root, const Finished& finished);
// Returns nothing if there is no such file. Throws Error: bad_data, io.
std::optional<Finished> read_finished(const std::string& root);
// Does nothing if there is no such file. Throws Error(io).
void remove_finished(const std::string& root);

}  // namespace tg
