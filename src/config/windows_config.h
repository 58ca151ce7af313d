#pragma once
// Attention windows that grow during a run, in RECIPE=speedrun_43, speedrun_89 and speedrun_91.
#include <cstdint>

#include "config/mode.h"
#include "config/role.h"
#include "config/types/limits.h"
#include "config/types/schedule.h"

namespace tg {

struct WindowsConfig {
  std::int64_t window_block = 128;
  CountSchedule short_window = 1;
  CountSchedule long_window = 1;
  std::int64_t final_long_window = 0;
  bool window_yarn = false;
  double attention_scale = 0;

  static void visit(auto& s, const auto& line) {
    const auto fixed =
        role::fixed_if(mode::has_own_layers)
            .of_recipe(RecipeChoice::speedrun_43)
            .ineffective_if(mode::negated<mode::has_own_layers>,
                            "has no effect without RECIPE=speedrun_43, speedrun_89 or speedrun_91");
    const auto blocks = within(1, most_tokens_in_row);
    line("window_block", s.window_block, within(1, most_tokens_in_row), fixed,
         "tokens of a block, the unit of the other windows");
    line(
        "short_window", s.short_window, blocks, fixed,
        "window of the short layers, in blocks: the tokens before a query that it sees, beside its "
        "own; 1,3@735,5@1470: another from a step or, below 1, from a fraction of the schedule on");
    line("long_window", s.long_window, blocks, fixed,
         "window of the long layers; changes as SHORT_WINDOW does");
    line("final_long_window", s.final_long_window, within(0, most_tokens_in_row), fixed,
         "window of the long layers in the evaluations after the last step; 0: as in training");
    line("window_yarn", s.window_yarn, anything, fixed,
         "where the long window grows, RoPE's frequencies and attention's scale follow (YaRN)");
    line("attention_scale", s.attention_scale, at_least(0), fixed,
         "initial scale of attention's scores; 0: 1 / square root of a query head's channels");
  }
};

}  // namespace tg
