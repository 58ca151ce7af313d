#include "config/frozen_settings.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "config/derived.h"
#include "config/text.h"

namespace tg {
namespace {

// Besides all of TttConfig and IoConfig. GRAD_ACCUM_STEPS counts by what follows from it, INIT_FROM
// only where a run begins.
constexpr auto free_settings =
    std::to_array<std::string_view>({"run_id",
                                     "output_dir",
                                     "iterations",
                                     "warmdown_iters",
                                     "warmup_steps",
                                     "max_wallclock_seconds",
                                     "grad_accum_steps",
                                     "val_batch_size",
                                     "val_tokens",
                                     "val_loss_every",
                                     "train_log_every",
                                     "eval_seq_len",
                                     "eval_stride",
                                     "device",
                                     "attention",
                                     "fused",
                                     "graphs",
                                     "pad_vocab",
                                     "activation_recompute",
                                     "memory_limit_gb",
                                     "init_from",
                                     "lr_trace",
                                     "profile",
                                     "profile_start",
                                     "profile_steps",
                                     "tensorboard",
                                     "deterministic",
                                     "on_nonfinite",
                                     "comm_timeout_s",
                                     "nonfinite_limit",
                                     "checkpoint_every",
                                     "keep",
                                     "resume",
                                     "artifact",
                                     "int8_keep_float_fp32_name_patterns"});

bool is_free(std::string_view name) {
  return std::find(free_settings.begin(), free_settings.end(), name) != free_settings.end();
}

}  // namespace

std::map<std::string, std::string> frozen_settings(const Settings& settings, int world_size) {
  std::map<std::string, std::string> frozen;
  settings.visit_groups([&](const char*, const auto& group) {
    using Group = std::remove_cvref_t<decltype(group)>;
    if constexpr (!std::is_same_v<Group, TttConfig> && !std::is_same_v<Group, IoConfig>) {
      group.visit([&](const char* name, const auto& value, const Limit&, const char*) {
        if (!is_free(name)) frozen[env_name(name)] = value_text(value);
      });
    }
  });
  frozen["micro-batches of a step"] = value_text(micro_batches(settings, world_size));
  // In the strided order a rank's position depends on the number of ranks.
  if (settings.data.loader_order == LoaderOrder::strided) {
    frozen["ranks (LOADER_ORDER=strided)"] = value_text(std::int64_t{world_size});
  }
  return frozen;
}

void require_resumable(const std::string& checkpoint,
                       const std::map<std::string, std::string>& saved, const Settings& settings,
                       int world_size) {
  const auto defaults = frozen_settings(Settings(), world_size);
  std::vector<std::string> differences;
  for (const auto& [name, value] : frozen_settings(settings, world_size)) {
    const auto found = saved.find(name);
    const auto before = found != saved.end()      ? found->second
                        : defaults.contains(name) ? defaults.at(name)
                                                  : value;
    if (before != value) differences.push_back(fmt::format("{}={}, now {}", name, before, value));
  }
  REQUIRE(
      differences.empty(), ExitCode::config,
      "{}: saved with other settings ({}); resume with those, or set RESUME=never for a new run",
      checkpoint, fmt::join(differences, "; "));
}

}  // namespace tg
