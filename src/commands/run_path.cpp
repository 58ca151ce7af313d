#include "commands/run_path.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "model_io/model_path.h"

namespace tg {

namespace fs = std::filesystem;

RunPath run_path(const std::string& run) {
  std::error_code ignored;
  REQUIRE(fs::exists(run, ignored), ExitCode::missing_input,
          "{}: no such folder (expected a run's OUTPUT_DIR, such as logs/RUN_ID)", run);
  const auto metrics =
      fs::is_directory(run, ignored) ? (fs::path(run) / "metrics.jsonl").string() : run;
  return {metrics, file_beside(metrics, "config.json")};
}

std::vector<RunPath> runs_in(const std::string& run_or_folder) {
  const auto path = run_path(run_or_folder);
  std::error_code ignored;
  if (fs::exists(path.metrics, ignored)) return {path};
  std::vector<RunPath> runs;
  for (const auto& entry : fs::directory_iterator(run_or_folder, ignored)) {
    const auto metrics = entry.path() / "metrics.jsonl";
    if (fs::exists(metrics, ignored)) runs.push_back(run_path(entry.path().string()));
  }
  std::ranges::sort(runs, {}, &RunPath::metrics);
  return runs;
}

}  // namespace tg
