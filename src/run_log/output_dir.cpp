#include "run_log/output_dir.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "files/atomic_file.h"
#include "run_log/run_files.h"

namespace tg {

namespace fs = std::filesystem;

namespace {

std::string random_uuid() {
  std::string uuid;
  std::ifstream file("/proc/sys/kernel/random/uuid");
  std::getline(file, uuid);
  REQUIRE(!uuid.empty(), ExitCode::io, "cannot draw a run id; set RUN_ID");
  return uuid;
}

void make_folder(const std::string& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  REQUIRE(!error && access(dir.c_str(), W_OK | X_OK) == 0, ExitCode::cannot_create,
          "cannot write to OUTPUT_DIR {} ({}); choose a folder that can be created and written",
          dir, error ? error.message() : "permission denied");
}

// Links logs/RUN_ID.txt to the log, for convenience: a failure is no error. Another file or link of
// this name is not replaced.
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

OutputDir::OutputDir(Settings& settings, int rank, const FromRank0& from_rank_0) {
  auto& run_id = settings.data.run_id;
  auto& dir = settings.runtime.output_dir;
  if (rank == 0) {
    if (run_id.empty()) run_id = random_uuid();
    const bool is_default = dir.empty();
    if (is_default) dir = "logs/" + run_id;
    make_folder(dir);
    lock_.emplace(dir + "/run.lock",
                  LockTexts{.taken = fmt::format("another run writes to OUTPUT_DIR {} (expected a "
                                                 "folder that no other run uses",
                                                 dir),
                            .elsewhere = "choose another OUTPUT_DIR or RUN_ID",
                            .unguarded = "nothing keeps another run from writing to this folder"});
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
