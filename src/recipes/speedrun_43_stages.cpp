#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <set>

#include "base/error.h"
#include "config/derived.h"
#include "recipes/speedrun_43.h"

namespace tg::record_43 {

namespace {

constexpr bool is_long(std::int64_t block) {
  return block == 4 || block == 11;
}

// Window sizes in units of WINDOW_BLOCK tokens.
struct Windows {
  std::int64_t small, large;
};

// RoPE frequencies and the scale of q·k.
struct Rotation {
  at::Tensor frequencies;  // radians per position of the channel pairs (j, j + d/2) of a head
  double scale;
};

// base^(−j / (d/4 − 1)) for j < d/4; the other half of the pairs is not rotated.
Rotation first_rotation(const ModelConfig& config) {
  const auto pairs = head_dim(config) / 2, rotated = pairs / 2;
  const auto base = at::full({}, 1 / config.rope_base, at::kFloat);
  const auto frequencies = at::pow(base, at::linspace(0, 1, rotated, at::kFloat));
  const double scale = config.windows.attention_scale;
  return {at::cat({frequencies, at::zeros({pairs - rotated}, at::kFloat)}),
          scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(head_dim(config)))};
}

// YaRN (Peng et al. 2023) for a window that grows from w_o to w_n: pairs with less than one
// rotation in w_o are slowed by w_o/w_n, pairs with more than 32 rotations keep their frequency,
// and scale ← scale·(1 + 0.2·ln(w_n/w_o)).
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

Pass make_pass(const ModelConfig& config, const Windows& windows, const Rotation& rotation,
               ParameterId skip_weights, const std::vector<ParameterId>& value_scales) {
  Pass pass{.slots = kFirstDecoder - 1,
            .rope_frequencies = rotation.frequencies,
            .attention_scale = rotation.scale};
  const auto backout_slot = pass.slots - 1;
  for (std::int64_t block = 1; block < kBlocks; ++block) {
    const auto window = is_long(block) ? windows.large : windows.small;
    LayerCall call{.index = block - 1,
                   .block = block,
                   .norm_scale = 1,
                   .attends = block != kWithoutAttention,
                   .window = config.windows.window_block * window + 1,
                   .value_scale = value_scales[static_cast<std::size_t>(block)],
                   .last = block == kBlocks - 1};
    if (block > 1 && block < kFirstDecoder) call.keep_input = block - 2;
    if (block == kBackout + 1) call.keep_input = backout_slot;
    if (const auto row = block - kFirstDecoder; row >= 0 && block < kBlocks - 1) {
      call.skip = {.weights = skip_weights, .row = row};
      if (row > 0) call.skip.slot = kFirstDecoder - 2 - row;
    }
    pass.calls.push_back(call);
  }
  return pass;
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

std::vector<Stage> stages(const ModelConfig& config, ParameterId skip_weights,
                          const std::vector<ParameterId>& value_scales) {
  const auto& windows = config.windows;
  std::vector<Stage> stages;
  auto rotation = first_rotation(config);
  Windows now{.small = windows.short_window.first(), .large = windows.long_window.first()};
  const auto add = [&](double from) {
    stages.push_back({.from = from,
                      .pass = make_pass(config, now, rotation, skip_weights, value_scales),
                      .title = fmt::format("windows of {} and {} blocks", now.small, now.large)});
  };
  for (const double from : changes(windows)) {
    const RunProgress progress{.step = static_cast<std::int64_t>(from),
                               .share = from < 1 ? from : 0};
    const Windows next{windows.short_window.at(progress), windows.long_window.at(progress)};
    rotation = stretched(rotation, config, now.large, next.large);
    now = next;
    add(from);
  }
  if (windows.final_long_window > 0) {
    now.large = windows.final_long_window;
    add(Stage::kNever);
    stages.back().title += ", in what is scored after the last step";
    stages.back().evaluates_alone = true;
  }
  return stages;
}

}  // namespace tg::record_43
