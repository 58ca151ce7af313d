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

}  // namespace

std::string prepare_output_dir(Settings& settings) {
  auto& run_id = settings.data.run_id;
  auto& dir = settings.runtime.output_dir;
  if (run_id.empty()) run_id = random_uuid();
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

}  // namespace tg
