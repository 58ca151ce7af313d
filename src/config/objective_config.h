#pragma once
// The loss that training minimizes: the softcap of the logits, and the targets of a position.
#include <string>

#include "config/mode.h"
#include "config/role.h"
#include "config/types/limits.h"
#include "config/types/schedule.h"

namespace tg {

struct ObjectiveConfig {
  double logit_softcap = 30;
  double logit_softcap_shift = 0;
  double logit_softcap_temperature = 0;
  RampSchedule mtp_weights = Ramps{{1, 1}};
  RampSchedule prefix_weight = Ramps{{0, 0}};
  std::string prefix_table;

  static void visit(auto& s, const auto& line) {
    line("logit_softcap", s.logit_softcap, above(0), role::fixed,
         "c in c tanh((z + b) / t), which bounds the logits z");
    line("logit_softcap_shift", s.logit_softcap_shift, anything, role::fixed, "b of LOGIT_SOFTCAP");
    line("logit_softcap_temperature", s.logit_softcap_temperature, at_least(0), role::fixed,
         "t of LOGIT_SOFTCAP; 0: c");
    line("mtp_weights", s.mtp_weights, at_least(0),
         role::fixed.of_recipe(RecipeChoice::speedrun_43),
         "weights of the next, the next but one, … token in the loss of the one head; "
         "1/0.5/0.25:0,1@0.3: 0.25 falls to 0 in the stage, and from a fraction of the run (below "
         "1) or a step on the next token alone counts");
    line("prefix_weight", s.prefix_weight, at_least(0),
         role::fixed.of_recipe(RecipeChoice::speedrun_43),
         "weight of the longest token that is a proper prefix of the next one, in the same loss; "
         "changes as MTP_WEIGHTS does");
    line(
        "prefix_table", s.prefix_table, anything,
        role::free.path()
            .of_recipe(RecipeChoice::speedrun_43)
            .ineffective_if(mode::negated<mode::has_prefix_targets>,
                            "has no effect without PREFIX_WEIGHT"),
        "JSON list with that token's id for each token, -1: none; empty: made of the vocabulary of "
        "TOKENIZER_PATH");
  }
};

}  // namespace tg
