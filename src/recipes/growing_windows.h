#pragma once
// Attention windows that grow during a run (records 43 and 89 of the GPT-124M speedrun), and the
// RoPE frequencies and scale of attention that follow them.
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "config/settings.h"
#include "model/plan.h"

namespace tg {

// What a stage's passes take from its windows, which are in tokens and include the query's own.
struct Windows {
  std::int64_t small, large;
  at::Tensor frequencies;  // [d/4] fp32, radians per position of the rotated pairs of channels
  double scale;            // multiplies q·k
};

// The stages with the windows of SHORT_WINDOW, LONG_WINDOW and FINAL_LONG_WINDOW, in order; a
// stage's pass is make_pass(its windows). The frequencies are at
// first base^(−j / (d/4 − 1)), j < d/4, for heads of d channels. With WINDOW_YARN they and the
// scale follow the long window as in YaRN (Peng et al. 2023): if it grows from w_o to w_n, pairs
// with less than one rotation in w_o are slowed by w_o/w_n, pairs with more than 32 rotations keep
// their frequency, and scale ← scale·(1 + 0.2·ln(w_n/w_o)). Throws Error(config) if some windows
// change at steps and others at fractions of the schedule.
std::vector<Stage> window_stages(const ModelConfig& config,
                                 const std::function<Pass(const Windows&)>& make_pass);

}  // namespace tg
