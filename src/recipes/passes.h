#pragma once
#include <cstdint>
#include <vector>

#include "config/settings.h"
#include "model/plan.h"

namespace tg {

// Number of skips in the longest pass: rows of the skip parameters.
std::int64_t skip_count(const ModelConfig& config);

// Parameters shared by layer calls, each of which reads one row.
struct PassParameters {
  ParameterId skip_weights, skip_gates;  // [skips, D]
  ParameterId lane_residual, lane_post;  // [blocks, …]
};

// The stages of a run: before recurrence, if there is any, and in it. U-Net skips (Ronneberger et
// al. 2015): each encoder entry saves its output, and the decoder adds them, newest first. Two
// lanes begin at the first decoder entry of a block ≥ PARALLEL_START_LAYER. Later entries of
// earlier blocks, whose output would not be read, are left out.
std::vector<Stage> make_stages(const ModelConfig& config, const PassParameters& parameters);

}  // namespace tg
