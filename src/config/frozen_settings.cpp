#include "config/frozen_settings.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "config/derived.h"
#include "config/text.h"

namespace tg {
namespace {

struct Rule {
  std::string_view setting;
  bool (*frozen)(const Settings&);
};

constexpr bool never(const Settings&) {
  return false;
}
constexpr bool if_tied(const Settings& s) {
  return s.model.tie_embeddings;
}
constexpr bool if_untied(const Settings& s) {
  return !s.model.tie_embeddings;
}
constexpr bool if_swa_is_applied(const Settings& s) {
  const auto& a = s.averaging;
  return !a.lawa_enabled && !a.ema_enabled && !s.runtime.record_quirks;
}

// What is not listed here is frozen always, but for TttConfig and IoConfig, all of which is free.
constexpr Rule rules[] = {
    // Free.
    {"run_id", never},
    {"output_dir", never},
    {"iterations", never},
    {"warmdown_iters", never},
    {"warmup_steps", never},
    {"max_wallclock_seconds", never},
    {"val_batch_size", never},
    {"val_tokens", never},
    {"val_loss_every", never},
    {"train_log_every", never},
    {"eval_seq_len", never},
    {"eval_stride", never},
    {"device", never},
    {"attention", never},
    {"fused", never},
    {"graphs", never},
    {"pad_vocab", never},
    {"activation_recompute", never},
    {"memory_limit_gb", never},
    {"lr_trace", never},
    {"profile", never},
    {"profile_start", never},
    {"profile_steps", never},
    {"tensorboard", never},
    {"deterministic", never},
    {"on_nonfinite", never},
    {"comm_timeout_s", never},
    {"nonfinite_limit", never},
    {"checkpoint_every", never},
    {"keep", never},
    {"resume", never},
    {"artifact", never},
    {"int8_keep_float_fp32_name_patterns", never},
    // Counts only where a run begins.
    {"init_from", never},
    {"weights", never},
    // Frozen as what follows from them: data and tokenizer by their content, micro-batches.
    {"data_path", never},
    {"shard_prefix", never},
    {"tokenizer_path", never},
    {"text_key", never},
    {"grad_accum_steps", never},
    // The schedule's length, where it does not follow the clock or a trace.
    {"schedule_iterations",
     [](const Settings& s) { return s.run.schedule_iterations > 0 && s.optim.lr_trace.empty(); }},
    // Without effect, always or where the part that they belong to is switched off.
    {"muon_beta2", never},
    {"late_qat", never},
    {"bigram_dim", [](const Settings& s) { return s.model.bigram_vocab_size > 0; }},
    {"ve_dim", [](const Settings& s) { return s.model.ve_enabled; }},
    {"ve_layers", [](const Settings& s) { return s.model.ve_enabled; }},
    {"mtp_loss_weight", [](const Settings& s) { return s.model.mtp_num_heads > 0; }},
    {"tied_embed_lr", if_tied},
    {"tied_embed_init_std", if_tied},
    {"embed_lr", if_untied},
    {"head_lr",
     [](const Settings& s) {
       const bool steps_mtp_heads = s.model.mtp_num_heads > 0 && !s.runtime.record_quirks;
       return if_untied(s) || steps_mtp_heads;
     }},
    {"muon_momentum_warmup_start",
     [](const Settings& s) { return s.optim.muon_momentum_warmup_steps > 0; }},
    // LAWA goes before EMA, which it needs until it has two copies.
    {"ema_enabled", [](const Settings& s) { return !s.averaging.lawa_enabled; }},
    {"ema_decay",
     [](const Settings& s) { return s.averaging.ema_enabled || s.averaging.lawa_enabled; }},
    {"swa_enabled", if_swa_is_applied},
    {"swa_every",
     [](const Settings& s) { return s.averaging.swa_enabled && if_swa_is_applied(s); }},
    {"lawa_k", [](const Settings& s) { return s.averaging.lawa_enabled; }},
    {"lawa_freq", [](const Settings& s) { return s.averaging.lawa_enabled; }},
    {"late_qat_threshold", [](const Settings& s) { return !s.averaging.qat_enabled; }},
};

bool is_frozen(std::string_view name, const Settings& settings) {
  const auto* const rule = std::ranges::find(rules, name, &Rule::setting);
  return rule == std::end(rules) || rule->frozen(settings);
}

// One value of those that mean the same.
Settings normalised(Settings settings) {
  auto& model = settings.model;
  if (model.rope_dims == 0) model.rope_dims = head_dim(model);
  if (model.ve_layers.empty()) model.ve_enabled = false;
  if (!schedule_follows_clock(settings.run))
    settings.run.schedule_iterations = schedule_iterations(settings.run);
  return settings;
}

FrozenTexts texts_of(const Settings& given) {
  const auto settings = normalised(given);
  FrozenTexts frozen;
  settings.visit_groups([&](const char*, const auto& group) {
    using Group = std::remove_cvref_t<decltype(group)>;
    if constexpr (!std::is_same_v<Group, TttConfig> && !std::is_same_v<Group, IoConfig>) {
      group.visit([&](const char* name, const auto& value, const Limit&, const char*) {
        if (is_frozen(name, settings)) frozen[env_name(name)] = value_text(value);
      });
    }
  });
  return frozen;
}

// A checkpoint's texts by the rules of this program. What it cannot read stays as it is.
FrozenTexts reread(FrozenTexts saved) {
  Settings settings;
  settings.visit([&](const char* name, auto& value, const Limit& limit, const char*) {
    const auto found = saved.find(env_name(name));
    auto read = value;
    if (found == saved.end() || !read_value(found->second, read) || !is_allowed(read, limit))
      return;
    value = std::move(read);
    saved.erase(found);
  });
  saved.merge(texts_of(settings));
  return saved;
}

}  // namespace

FrozenTexts frozen_settings(const Settings& settings, int world_size) {
  auto frozen = texts_of(settings);
  frozen["micro-batches of a step"] = value_text(micro_batches(settings, world_size));
  const auto ranks = value_text(std::int64_t{world_size});
  // In the strided order a rank's position depends on the number of ranks.
  if (settings.data.loader_order == LoaderOrder::strided)
    frozen["ranks (LOADER_ORDER=strided)"] = ranks;
  // Each rank clips its own gradients, and keeps its own of the multi-token heads.
  const bool differ = settings.optim.grad_clip_norm > 0 || settings.model.mtp_num_heads > 0;
  if (settings.runtime.record_quirks && differ) frozen["ranks (RECORD_QUIRKS=1)"] = ranks;
  return frozen;
}

std::vector<std::string> differences(const FrozenTexts& saved, const FrozenTexts& now) {
  std::vector<std::string> found;
  for (const auto& [name, value] : now) {
    const auto before = saved.find(name);
    if (before == saved.end() || before->second == value) continue;
    found.push_back(fmt::format("{}={}, now {}", name, before->second, value));
  }
  return found;
}

void require_resumable(const std::string& checkpoint, const FrozenTexts& saved,
                       const Settings& settings, int world_size) {
  const auto found = differences(reread(saved), frozen_settings(settings, world_size));
  REQUIRE(
      found.empty(), ExitCode::config,
      "{}: saved with other settings ({}); resume with those, or set RESUME=never for a new run",
      checkpoint, fmt::join(found, "; "));
}

}  // namespace tg
