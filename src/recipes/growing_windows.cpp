#include "recipes/growing_windows.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <set>
#include <utility>

#include "base/error.h"
#include "config/derived.h"

namespace tg {

namespace {

struct Rotation {
  at::Tensor frequencies;
  double scale;
};

Rotation first_rotation(const ModelConfig& config) {
  const auto base = at::full({}, 1 / config.rope_base, at::kFloat);
  const double scale = config.windows.attention_scale;
  return {at::pow(base, at::linspace(0, 1, qk_head_dim(config) / 4, at::kFloat)),
          scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(qk_head_dim(config)))};
}

Rotation stretched(const Rotation& from, const ModelConfig& config, std::int64_t before,
                   std::int64_t after) {
  if (before == after || !config.windows.window_yarn) return from;
  const double ratio = static_cast<double>(before) / static_cast<double>(after);
  const auto window = static_cast<double>(config.windows.window_block * before);
  const auto rotations = window * from.frequencies / (2 * std::numbers::pi);
  const auto kept = ((rotations - 1) / 31).clamp(0, 1);
  return {from.frequencies * (ratio + kept * (1 - ratio)),
          from.scale * (1 + 0.2 * std::log(1 / ratio))};
}

// Starts of the stages: where a window size changes, at fractions of the schedule, or at steps.
std::set<double> changes(const WindowsConfig& windows) {
  std::set<double> found;
  for (const auto* schedule : {&windows.short_window, &windows.long_window}) {
    for (const auto& stage : schedule->stages()) found.insert(stage.from);
  }
  const bool steps = *found.rbegin() >= 1;
  for (const double from : found) {
    REQUIRE(from == 0 || (from >= 1) == steps, ExitCode::config,
            "SHORT_WINDOW and LONG_WINDOW change at a share of the run ({}) and at a step ({}): "
            "expected shares alone, below 1, or steps alone",
            from, *found.rbegin());
  }
  return found;
}

}  // namespace

std::vector<Stage> window_stages(const ModelConfig& config,
                                 const std::function<Pass(const Windows&)>& make_pass) {
  const auto& windows = config.windows;
  std::vector<Stage> stages;
  auto rotation = first_rotation(config);
  // In units of WINDOW_BLOCK tokens.
  auto small = windows.short_window.first(), large = windows.long_window.first();
  const auto add = [&](double from) {
    stages.push_back({.from = from,
                      .pass = make_pass({.small = windows.window_block * small + 1,
                                         .large = windows.window_block * large + 1,
                                         .frequencies = rotation.frequencies,
                                         .scale = rotation.scale}),
                      .title = fmt::format("windows of {} and {} blocks", small, large)});
  };
  for (const double from : changes(windows)) {
    const RunProgress progress{.step = static_cast<std::int64_t>(from),
                               .share = from < 1 ? from : 0};
    const auto before = std::exchange(large, windows.long_window.at(progress));
    small = windows.short_window.at(progress);
    rotation = stretched(rotation, config, before, large);
    add(from);
  }
  if (windows.final_long_window > 0) {
    large = windows.final_long_window;
    add(Stage::kNever);
    stages.back().title += ", in what is scored after the last step";
    stages.back().evaluates_alone = true;
  }
  return stages;
}

}  // namespace tg
