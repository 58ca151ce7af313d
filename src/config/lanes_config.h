#pragma once
// Two lanes of the residual stream in the last blocks: attention reads one, the MLP the other.
#include <cstdint>

#include "config/mode.h"
#include "config/role.h"
#include "config/types/choices.h"
#include "config/types/limits.h"

namespace tg {

struct LanesConfig {
  std::int64_t parallel_start_layer = 0;
  ParallelFinalLane parallel_final_lane = ParallelFinalLane::mean;

  template <class Self, class Line>
  static void visit(Self& s, const Line& line) {
    line("parallel_start_layer", s.parallel_start_layer, within(0, most_parts),
         role::fixed.only(RecipeChoice::last_record),
         "first block of the second half of a pass in which attention and MLP run side by side on "
         "two lanes of the residual stream; 0: none");
    line("parallel_final_lane", s.parallel_final_lane, anything,
         role::fixed_if(mode::has_lanes).only(RecipeChoice::last_record),
         "what the head reads: the mean of the two lanes, or attention's or the MLP's alone");
  }
};

}  // namespace tg
