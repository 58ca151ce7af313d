#include "run_log/output_dir.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "files/atomic_file.h"
#include "files/file_lock.h"
#include "run_log/run_files.h"

namespace tg {

namespace fs = std::filesystem;

namespace {

std::string first_line_of(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::string random_uuid() {
  const auto uuid = first_line_of("/proc/sys/kernel/random/uuid");
  REQUIRE(!uuid.empty(), ExitCode::io, "cannot draw a run id; set RUN_ID");
  return uuid;
}

std::string own_name() {
  char host[HOST_NAME_MAX + 1] = {};
  ::gethostname(host, HOST_NAME_MAX);
  return fmt::format("pid {} on {}", ::getpid(), host);
}

void make_folder(const std::string& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  REQUIRE(!error && access(dir.c_str(), W_OK | X_OK) == 0, ExitCode::cannot_create,
          "cannot write to OUTPUT_DIR {} ({}); choose a folder that can be created and written",
          dir, error ? error.message() : "permission denied");
}

// logs/RUN_ID.txt, a convenience: failing to create it is no error. Another file or link of this
// name is not replaced.
void link_log(const std::string& dir) {
  const fs::path link = dir + ".txt";
  const fs::path target = fs::path(dir).filename() / "log.txt";
  std::error_code error;
  if (fs::symlink_status(link, error).type() == fs::file_type::not_found) {
    fs::create_symlink(target, link, error);
  } else if (fs::read_symlink(link, error) != target) {
    log_warn("{} is not a link to this run's log and stays as it is; the log is {}/log.txt",
             link.string(), dir);
  }
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) : path_(folder + "/run.lock") {
  while (true) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    REQUIRE(descriptor_ >= 0, ExitCode::cannot_create,
            "{}: cannot be created ({}); choose another OUTPUT_DIR", path_, std::strerror(errno));
    const bool locked = try_lock(descriptor_, FileLock::exclusive);
    if (locked && has_name(descriptor_, path_)) break;
    const int error = errno;
    ::close(std::exchange(descriptor_, -1));
    if (locked) continue;  // the file of a run that has ended meanwhile
    const auto owner = first_line_of(path_);
    REQUIRE(error != EAGAIN && error != EACCES, ExitCode::cannot_create,
            "another run writes to OUTPUT_DIR {} (expected a folder that no other run uses, found "
            "it locked by {}); wait for that run to end, or choose another OUTPUT_DIR or RUN_ID",
            folder, owner.empty() ? "another process" : owner);
    log_warn("{}: cannot be locked ({}); nothing keeps another run from writing to this folder",
             path_, std::strerror(error));
    return;
  }
  file_.emplace(path_);
  // Only the error message of another run reads it, so failing to write it is no error.
  const auto name = own_name() + "\n";
  if (::ftruncate(descriptor_, 0) == 0) {
    [[maybe_unused]] const auto written = ::write(descriptor_, name.data(), name.size());
  }
}

FolderLock::~FolderLock() {
  if (descriptor_ < 0) return;
  file_.reset();
  ::close(descriptor_);
}

OutputDir::OutputDir(Settings& settings, int rank, const FromRank0& from_rank_0) {
  auto& run_id = settings.data.run_id;
  auto& dir = settings.runtime.output_dir;
  if (rank == 0) {
    if (run_id.empty()) run_id = random_uuid();
    const bool is_default = dir.empty();
    if (is_default) dir = "logs/" + run_id;
    make_folder(dir);
    lock_.emplace(dir);
    for (const auto& folder : {dir, checkpoints_folder(dir)}) {
      remove_abandoned_files(folder, is_run_file);
    }
    if (is_default) link_log(dir);
  }
  run_id = from_rank_0("run_id", run_id);
  dir = from_rank_0("output_dir", dir);
  path_ = dir;
}

}  // namespace tg
