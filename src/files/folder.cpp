#include "files/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace tg {

ExitCode creation_error(int error) {
  const bool disk = error == ENOSPC || error == EDQUOT || error == EIO || error == EFBIG;
  return disk ? ExitCode::io : ExitCode::cannot_create;
}

void create_folders(const std::string& path, std::string_view advice) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  REQUIRE(!error, creation_error(error.value()), "{}: cannot be created ({}){}", path,
          error.message(), advice);
}

std::vector<std::string> names_in(const std::string& folder, std::error_code& error) {
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::string temporary_folder(std::string_view advice) {
  std::error_code error;
  const auto path = std::filesystem::temp_directory_path(error);
  REQUIRE(!error, ExitCode::cannot_create, "no folder for temporary files ({}){}", error.message(),
          advice);
  return path.string();
}

void sync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  REQUIRE(result == 0 || error == EINVAL || error == ENOTSUP, ExitCode::io,
          "{}: fsync of the folder failed ({})", folder, std::strerror(error));
}

}  // namespace tg
