#include "commands/run_path.h"

#include <filesystem>

#include "base/error.h"
#include "commands/model_file.h"

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

}  // namespace tg
