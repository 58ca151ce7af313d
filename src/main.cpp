// Parses, joins, runs, and turns an exception into one line and an exit code.
#include <fmt/format.h>

#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "config/check.h"
#include "config/launch.h"
#include "config/parse.h"
#include "config/unbuilt.h"
#include "train/machine.h"
#include "train/out_of_memory.h"
#include "train/output_dir.h"
#include "train/trainer.h"

namespace tg {
namespace {

void run(int argc, char** argv) {
  auto [settings, origins, help, version] = parse_settings(argc, argv);
  if (help || version) {
    fmt::print("{}", help ? help_text() : version_text());
    return;
  }
  const auto launch = read_launch();
  set_log_rank(launch.rank);
  REQUIRE(launch.world_size == 1, ExitCode::usage,
          "{} ranks were started (by {}), but training on several ranks is not available yet; "
          "start one",
          launch.world_size, launch.launcher);
  check_settings(settings, launch.world_size);
  for (const auto& notice : notices(settings, origins)) warn_line(notice);

  explaining_out_of_memory(settings, [&] {
    const auto machine = set_up_machine(settings.runtime, settings.model, launch.local_rank);
    const auto output_dir = prepare_output_dir(settings);
    Trainer(settings, machine, output_dir, origins).run();
  });
}

}  // namespace
}  // namespace tg

int main(int argc, char** argv) {
  try {
    tg::run(argc, argv);
    return 0;
  } catch (const tg::Error& error) {
    tg::error_line(static_cast<int>(error.exit_code()), error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    tg::error_line(static_cast<int>(tg::ExitCode::internal), error.what());
    return static_cast<int>(tg::ExitCode::internal);
  }
}
