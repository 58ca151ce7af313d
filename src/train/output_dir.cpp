#include "train/output_dir.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace tg {

namespace fs = std::filesystem;

namespace {

std::string random_uuid() {
  std::ifstream file("/proc/sys/kernel/random/uuid");
  std::string uuid;
  REQUIRE(std::getline(file, uuid), ExitCode::io, "cannot draw a run id; set RUN_ID");
  return uuid;
}

std::string make_folder(const std::string& run_id, std::string dir) {
  const bool is_default = dir.empty();
  if (is_default) dir = "logs/" + run_id;

  std::error_code error;
  fs::create_directories(dir, error);
  REQUIRE(!error && access(dir.c_str(), W_OK | X_OK) == 0, ExitCode::cannot_create,
          "cannot write to OUTPUT_DIR {} ({}); choose a folder that can be created and written",
          dir, error ? error.message() : "permission denied");
  if (is_default) {
    const fs::path link = "logs/" + run_id + ".txt";
    fs::remove(link, error);
    fs::create_symlink(run_id + "/log.txt", link,
                       error);  // a convenience: a run goes on without it
  }
  return dir;
}

}  // namespace

std::string prepare_output_dir(Settings& settings, const Rendezvous& meeting,
                               const LaunchInfo& launch) {
  auto& run_id = settings.data.run_id;
  auto& dir = settings.runtime.output_dir;
  if (launch.rank == 0) {
    if (run_id.empty()) run_id = random_uuid();
    dir = make_folder(run_id, dir);
  }
  run_id = share_from_rank_0(meeting, launch, "run_id", run_id);
  dir = share_from_rank_0(meeting, launch, "output_dir", dir);
  return dir;
}

}  // namespace tg
