#pragma once
// ROOT/step-00000100/ is a complete checkpoint: manifest.json and the files that it lists. While
// ranks write it, it is ROOT/.step-00000100.tmp/, so a kill at any time leaves nothing incomplete
// under a checkpoint's name.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_manifest.h"

namespace tg {

std::string checkpoint_folder(const std::string& root, std::int64_t step);
// Returns the steps of complete checkpoints by their folders' names, newest first; none if ROOT is
// missing. Does not look at their files: read_checkpoint(). Throws Error(io).
std::vector<std::int64_t> checkpoint_steps(const std::string& root);

// Creates the folder that a checkpoint is written into, and those above it → its path. Every rank
// may call it at the same time. Errors: cannot_create, io (the disk is full or broken).
std::string begin_checkpoint(const std::string& root, std::int64_t step);
// After begin_checkpoint() and once all files are in that folder: makes it the checkpoint of
// manifest.step, in place of one that exists. Durable when it returns. Errors: cannot_create; io,
// also where a file that the manifest lists is not there with its size. Nothing incomplete has a
// checkpoint's name then either.
void publish_checkpoint(const std::string& root, const Manifest& manifest);

// Removes all checkpoints but the newest `keep`, and all that set_aside_newer() has renamed but the
// newest `keep` of these. What cannot be removed is a warning.
void prune_checkpoints(const std::string& root, std::size_t keep);
// Renames the checkpoints of later steps, which a run that goes on from `step` leaves behind, to
// abandoned-step-00000200; an earlier one of that name is removed. What cannot be renamed is a
// warning.
void set_aside_newer(const std::string& root, std::int64_t step);
// Removes what killed or failed saves left; no rank may be saving. Call it before
// checkpoint_steps(): a checkpoint that was about to be replaced gets its name back. What cannot be
// removed is a warning.
void remove_incomplete_checkpoints(const std::string& root);

}  // namespace tg
