#pragma once
#include <string>
#include <string_view>

#include "base/error.h"

namespace tg {

// The exit code where a file or folder cannot be created, by errno: io where the disk is full or
// broken, else cannot_create.
ExitCode creation_error(int error);

// mkdir -p. `advice` ends the line of an error. Errors: those of creation_error().
void create_folders(const std::string& path, std::string_view advice = "");

// Where temporary files are made: TMPDIR, else /tmp. `advice` ends the line of an error. Errors:
// cannot_create (that is no folder).
std::string temporary_folder(std::string_view advice = "; set TMPDIR to one");

// Makes renames and new names in the folder durable. No error where the folder cannot be opened for
// reading, or the file system has no fsync of folders. Errors: io.
void sync_folder(const std::string& folder);

}  // namespace tg
