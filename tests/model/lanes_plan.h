#pragma once
// A plan that no recipe makes: blocks that are visited several times, skips of every kind, without
// gates and with, and two lanes.
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg::test {

inline constexpr std::int64_t kLaneBlocks = 3;

inline ModelConfig three_blocks() {
  auto config = tiny_record();
  config.num_layers = kLaneBlocks;
  config.bigram_vocab_size = config.xsa_last_n = 0;
  config.ve_enabled = config.unet_skips = false;
  config.gates.smear = SmearKind::off;
  return config;
}

struct LaneCase {
  const char* name;
  ParallelFinalLane head;
  bool gated;
};
inline const LaneCase kLaneCases[] = {{"mean_gated", ParallelFinalLane::mean, true},
                                      {"mean", ParallelFinalLane::mean, false},
                                      {"first_gated", ParallelFinalLane::attention, true},
                                      {"second_gated", ParallelFinalLane::mlp, true}};

struct LanePlan {
  ModelSpec spec;
  ParameterId residual{}, post{}, skip_weights{}, skip_gates{};  // without gates none
};

// Two layer calls whose inputs are kept, then in one lane a layer call that its own input is the
// skip of, and one with a skip; in two lanes the same, and between them one without a skip.
inline LanePlan two_lanes(const ModelConfig& config, const LaneCase& lane_case) {
  LanePlan lanes{.spec = test::spec_of(config)};
  auto& spec = lanes.spec;
  const auto dim = config.model_dim;
  const auto declare = [&](const char* name, const std::vector<std::int64_t>& shape) {
    spec.parameters.push_back({.name = name, .shape = shape, .update = Update::scalar});
    return ParameterId{std::ssize(spec.parameters) - 1};
  };
  lanes.residual = declare("residual", {3, 2});
  lanes.post = declare("post", {3, 2, 2});
  lanes.skip_weights = declare("skip_weights", {4, dim});
  if (lane_case.gated) lanes.skip_gates = declare("skip_gates", {4, dim});
  const auto skip = [&](std::int64_t row, std::optional<std::int64_t> slot = {}) {
    return LayerCall::Skip{
        .weights = lanes.skip_weights, .gates = lanes.skip_gates, .row = row, .slot = slot};
  };
  const auto in_lanes = [&](std::int64_t row) {
    return LaneMix{.residual = lanes.residual, .post = lanes.post, .row = row};
  };
  auto& pass = spec.plan.stages.front().pass;
  pass.calls = {
      {.index = 0, .block = 0, .norm_scale = 1},
      {.index = 1, .block = 1, .norm_scale = 0.7, .keep_input = 0},
      {.index = 2, .block = 0, .norm_scale = 0.9, .keep_input = 1},
      {.index = 3, .block = 2, .norm_scale = 0.8, .skip = skip(0)},
      {.index = 4, .block = 1, .norm_scale = 0.7, .skip = skip(1, 1)},
      {.index = 5, .block = 1, .norm_scale = 0.6, .skip = skip(2), .lanes = in_lanes(0)},
      {.index = 6, .block = 0, .norm_scale = 0.4, .lanes = in_lanes(1)},
      {.index = 7,
       .block = 2,
       .norm_scale = 0.5,
       .skip = skip(3, 0),
       .lanes = in_lanes(2),
       .last = true},
  };
  pass.slots = 2;
  spec.plan.head.lane = lane_case.head;
  return lanes;
}

}  // namespace tg::test
