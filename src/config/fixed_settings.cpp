#include "config/fixed_settings.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "config/derived.h"
#include "config/script_names.h"
#include "config/types/text.h"

namespace tg {
namespace {

// Replaces equivalent values by one of them.
Settings normalised(Settings settings) {
  auto& model = settings.model;
  model.recipe = resolved_recipe(settings);
  if (model.rope_dims == 0) model.rope_dims = head_dim(model);
  model.qk_head_dim = qk_head_dim(model);
  if (model.ve_layers.empty()) model.ve_enabled = false;
  auto& windows = model.attention_window;
  if (std::ranges::adjacent_find(windows, std::not_equal_to()) == windows.end()) windows.resize(1);
  const bool segments = mode::segments_attention(settings);
  settings.data.document_attention =
      segments ? DocumentAttentionChoice::on : DocumentAttentionChoice::off;
  settings.data.segment_limit = {.value = segment_limits(settings)};
  settings.optim.embed_wd = {.value = embed_wd(settings.optim)};
  if (!schedule_follows_clock(settings.run))
    settings.run.schedule_iterations = schedule_iterations(settings.run);
  return settings;
}

FixedTexts texts_of(const Settings& given) {
  const auto settings = normalised(given);
  FixedTexts fixed;
  for_each_setting(settings, [&]<class T>(const Setting<const T>& setting) {
    if (!setting.role.is_fixed) return;
    // auto follows from other settings, and a checkpoint may be older than this setting.
    if constexpr (std::is_same_v<T, CountOrAuto>)
      if (setting.value.automatic) return;
    fixed[env_name(setting.name)] = value_text(setting.value);
  });
  return fixed;
}

// Converts a checkpoint's texts to this program's form. Unreadable texts stay as they are.
FixedTexts reread(FixedTexts saved) {
  replace_script_switches(saved);
  Settings settings;
  for_each_setting(settings, [&](const auto& setting) {
    const auto found = saved.find(env_name(setting.name));
    auto read = setting.value;
    if (found == saved.end() || !read_value(found->second, read) ||
        !is_allowed(read, setting.limit))
      return;
    setting.value = std::move(read);
    saved.erase(found);
  });
  saved.merge(texts_of(settings));
  return saved;
}

}  // namespace

FixedTexts fixed_settings(const Settings& settings, int world_size) {
  auto fixed = texts_of(settings);
  fixed["micro-batches of a step"] = value_text(micro_batches(settings, world_size));
  const auto ranks = value_text(std::int64_t{world_size});
  // In the strided order a rank's position depends on the number of ranks.
  if (settings.data.loader_order == LoaderOrder::strided)
    fixed["ranks (LOADER_ORDER=strided)"] = ranks;
  // With RECORD_QUIRKS each rank clips its own gradients and keeps its own multi-token heads, and a
  // round of the documents and aligned orders has a row for each rank.
  const bool differ = settings.optim.grad_clip_norm > 0 || settings.model.mtp_num_heads > 0 ||
                      mode::batches_are_rows(settings);
  if (settings.runtime.record_quirks && differ) fixed["ranks (RECORD_QUIRKS=1)"] = ranks;
  return fixed;
}

std::vector<std::string> differences(const FixedTexts& saved, const FixedTexts& now) {
  std::vector<std::string> found;
  for (const auto& [name, value] : now) {
    const auto before = saved.find(name);
    if (before == saved.end() || before->second == value) continue;
    found.push_back(fmt::format("{}={}, now {}", name, before->second, value));
  }
  return found;
}

void require_resumable(const std::string& checkpoint, const FixedTexts& saved,
                       const Settings& settings, int world_size) {
  const auto found = differences(reread(saved), fixed_settings(settings, world_size));
  REQUIRE(
      found.empty(), ExitCode::config,
      "{}: saved with other settings ({}); resume with those, or set RESUME=never for a new run",
      checkpoint, fmt::join(found, "; "));
}

}  // namespace tg
