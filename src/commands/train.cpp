#include <fmt/format.h>

#include <csignal>
#include <utility>
#include <vector>

#include "checkpoint/resume.h"
#include "comm/communicator.h"
#include "commands/commands.h"
#include "commands/join.h"
#include "config/check.h"
#include "config/derived.h"
#include "config/parse.h"
#include "data/vocabulary.h"
#include "model_io/artifact_files.h"
#include "model_io/model_path.h"
#include "recipes/recipe.h"
#include "run_log/run_files.h"
#include "train/lr_trace.h"
#include "train/trainer.h"

namespace tg {

void train_command(int argc, const char* const* argv) {
  auto [settings, origins, warnings, help, version, help_page] =
      parse_settings(argc, argv, {.set_recipe_defaults = set_recipe_defaults});
  if (help || version) {
    fmt::print("{}", help ? help_text(help_page) : version_text());
    return;
  }
  std::vector<TracedStep> lr_trace;
  if (!settings.optim.lr_trace.empty()) {
    lr_trace = read_lr_trace(settings.optim.lr_trace);
    end_with(lr_trace, settings.run);
  }
  // A closed standard output (`| head`) must not end training: log.txt is still written.
  std::signal(SIGPIPE, SIG_IGN);
  auto notices = ineffective_settings(settings, origins);
  notices.insert(notices.end(), warnings.begin(), warnings.end());
  follow(lr_trace, settings.run);
  const auto joined = join_ranks(settings, origins, SettingsUse::training, notices);
  if (joined.launch.rank == 0 && settings.runtime.artifact == Artifact::gptq)
    require_compressor(settings.gptq.compressor);
  resolve_bos_id(settings);
  resolve_rope_longest(settings, joined.launch.world_size);
  const OutputDir output_dir(settings, joined.launch.rank, [&](const auto& key, const auto& value) {
    return broadcast_from_rank_0(joined.rendezvous, joined.launch, key, value);
  });
  Communicator communicator(joined.rendezvous, joined.launch, joined.machine.device,
                            settings.runtime.comm_timeout_s,
                            choose_sum_order(settings.runtime.deterministic, joined.machine.device),
                            output_dir.path() + "/comm_traces");
  auto beginning = find_beginning(settings, joined.machine, output_dir.path(), communicator);
  if (beginning.finished) return;
  if (beginning.resume) keep_schedule(*beginning.resume, settings.run);
  if (!beginning.resume && !settings.runtime.init_from.empty())
    choose_model(settings, communicator);
  train({.settings = settings,
         .origins = origins,
         .machine = joined.machine,
         .communicator = communicator,
         .ranks = joined.event(),
         .store = joined.rendezvous.store,
         .output_dir = output_dir.path(),
         .resume = std::move(beginning.resume),
         .lr_trace = lr_trace});
}

}  // namespace tg
