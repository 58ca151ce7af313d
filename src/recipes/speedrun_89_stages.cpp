#include "recipes/growing_windows.h"
#include "recipes/speedrun_89.h"

namespace tg::record_89 {

namespace {

Pass make_pass(const WindowStage& stage, std::int64_t dc_window) {
  Pass pass{.rope_frequencies = stage.frequencies, .attention_scale = stage.scale};
  for (std::int64_t block = 0; block < kBlocks; ++block) {
    pass.calls.push_back({.index = block,
                          .block = block,
                          .norm_scale = 1,
                          .attends = block != kWithoutAttention,
                          .window = is_long(block) ? stage.large : stage.small,
                          .paired = is_paired(block),
                          .key_offset = is_long(block),
                          .composed_window = block == kLast ? dc_window : 0,
                          .adds_values = value_table(block) >= 0 || block == kLast});
  }
  return pass;
}

}  // namespace

std::vector<Stage> stages(const ModelConfig& config) {
  std::vector<Stage> stages;
  for (const auto& stage : window_stages(config)) {
    stages.push_back({.from = stage.from,
                      .evaluates_alone = stage.evaluates_alone,
                      .pass = make_pass(stage, config.gates.dc_window),
                      .title = stage.title});
  }
  return stages;
}

}  // namespace tg::record_89
