#pragma once
#include <cstdint>
#include <vector>

#include "config/settings.h"
#include "model/plan.h"

namespace tg {

// The rows of the skips' parameters: the skips of the longest pass.
std::int64_t skip_count(const ModelConfig& config);

// Parameters that layer calls share, one row per call.
struct PassParameters {
  ParameterId skip_weights, skip_gates;  // a row a skip
  ParameterId lane_residual, lane_post;  // a row a block
};

// The stages of a run: before recurrence, if there is any, and in it.
// U-Net skips (Ronneberger et al. 2015): each encoder entry keeps its output, and the decoder adds
// them, the newest first. From the first decoder entry of a block from PARALLEL_START_LAYER on
// there are two lanes. An entry of an earlier block after that, whose output nothing would read, is
// left out.
std::vector<Stage> make_stages(const ModelConfig& config, const PassParameters& parameters);

}  // namespace tg
