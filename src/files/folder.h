#pragma once
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace tg {

// Returns the exit code for a file or folder that cannot be created, by errno: io if the disk is
// full or broken, else cannot_create.
ExitCode creation_error(int error);

// Creates the folder and its parents (mkdir -p). `advice` ends the error message. Throws the code
// of creation_error().
void create_folders(const std::string& path, std::string_view advice = "");

// Returns the names in the folder, sorted; those before an error, such as a missing folder.
std::vector<std::string> names_in(const std::string& folder, std::error_code& error);

// Returns the folder for temporary files: TMPDIR, else /tmp. `advice` ends the error message.
// Throws Error(cannot_create) if it is no folder.
std::string temporary_folder(std::string_view advice = "; set TMPDIR to one");

// Makes renames and new names in the folder durable. Ignores folders that cannot be opened for
// reading and file systems without fsync of folders. Throws Error(io).
void sync_folder(const std::string& folder);

}  // namespace tg
