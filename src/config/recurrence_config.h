#pragma once
// Recurrence: some blocks run several times in one pass, from a fraction of the run on.
#include <cstdint>

#include "config/mode.h"
#include "config/role.h"
#include "config/types/choices.h"
#include "config/types/limits.h"

namespace tg {

struct RecurrenceConfig {
  std::int64_t num_loops = 0;
  std::int64_t loop_start = 3;
  std::int64_t loop_end = 5;
  double enable_looping_at = 0.35;

  static void visit(auto& s, const auto& line) {
    line("num_loops", s.num_loops, within(0, most_parts),
         role::fixed.of_recipe(RecipeChoice::last_record),
         "how often a pass repeats the blocks LOOP_START to LOOP_END; 0: no recurrence");
    line("loop_start", s.loop_start, at_least(0),
         role::fixed_if(mode::has_recurrence).of_recipe(RecipeChoice::last_record),
         "first block of the recurrence");
    line("loop_end", s.loop_end, at_least(0),
         role::fixed_if(mode::has_recurrence).of_recipe(RecipeChoice::last_record),
         "last block of the recurrence");
    line("enable_looping_at", s.enable_looping_at, at_least(0),
         role::fixed_if(mode::has_recurrence).of_recipe(RecipeChoice::last_record),
         "fraction of the run, or of its time where the schedule follows the clock, from which the "
         "blocks recur; 0: from the first step, 1 or more: never");
  }
};

// Two lanes of the residual stream in the last blocks: attention reads one, the MLP the other.
struct LanesConfig {
  std::int64_t parallel_start_layer = 0;
  ParallelFinalLane parallel_final_lane = ParallelFinalLane::mean;

  static void visit(auto& s, const auto& line) {
    line("parallel_start_layer", s.parallel_start_layer, within(0, most_parts),
         role::fixed.of_recipe(RecipeChoice::last_record),
         "first block of the second half of a pass in which attention and MLP run side by side on "
         "two lanes of the residual stream; 0: none");
    line("parallel_final_lane", s.parallel_final_lane, anything,
         role::fixed_if(mode::has_lanes).of_recipe(RecipeChoice::last_record),
         "what the head reads: the mean of the two lanes, or attention's or the MLP's alone");
  }
};

}  // namespace tg
