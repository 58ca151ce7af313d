#include "config/derived.h"
#include "recipes/growing_windows.h"
#include "recipes/speedrun_43.h"

namespace tg::record_43 {

namespace {

constexpr bool is_long(std::int64_t block) {
  return block == 4 || block == 11;
}

Pass make_pass(const WindowStage& stage, std::int64_t pairs, ParameterId skip_weights,
               const std::vector<ParameterId>& value_scales) {
  // The other half of the pairs is not rotated.
  const auto still = at::zeros({pairs - stage.frequencies.numel()}, at::kFloat);
  Pass pass{.slots = kFirstDecoder - 1,
            .rope_frequencies = at::cat({stage.frequencies, still}),
            .attention_scale = stage.scale};
  const auto backout_slot = pass.slots - 1;
  for (std::int64_t block = 1; block < kBlocks; ++block) {
    LayerCall call{.index = block - 1,
                   .block = block,
                   .norm_scale = 1,
                   .attends = block != kWithoutAttention,
                   .window = is_long(block) ? stage.large : stage.small,
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

}  // namespace

std::vector<Stage> stages(const ModelConfig& config, ParameterId skip_weights,
                          const std::vector<ParameterId>& value_scales) {
  std::vector<Stage> stages;
  for (const auto& stage : window_stages(config)) {
    stages.push_back({.from = stage.from,
                      .evaluates_alone = stage.evaluates_alone,
                      .pass = make_pass(stage, head_dim(config) / 2, skip_weights, value_scales),
                      .title = stage.title});
  }
  return stages;
}

}  // namespace tg::record_43
