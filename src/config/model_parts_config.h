#pragma once
// Parts of the model: objective, recurrence, lanes, gates and windows.
#include <cstdint>
#include <string>

#include "config/mode.h"
#include "config/setting.h"
#include "config/types/schedule.h"

namespace tg {

namespace role {
// A setting of the layers of the speedrun's records 89 and 91.
inline Role of_speedrun_2026(const Settings& all) {
  const bool has_effect = mode::is_speedrun_of_2026(all);
  return fixed_if(has_effect)
      .of_recipe(RecipeChoice::speedrun_89)
      .ineffective_if(!has_effect, "has no effect without RECIPE=speedrun_89 or speedrun_91");
}
}  // namespace role

// The loss that training minimizes: the softcap of the logits, and the targets of a position.
struct ObjectiveConfig {
  double logit_softcap = 30;
  double logit_softcap_shift = 0;
  double logit_softcap_temperature = 0;
  RampSchedule mtp_weights = Ramps{{1, 1}};
  RampSchedule prefix_weight = Ramps{{0, 0}};
  std::string prefix_table;

  static void visit(auto& s, const auto& line, const auto& all) {
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
            .ineffective_if(!mode::has_prefix_targets(all), "has no effect without PREFIX_WEIGHT"),
        "JSON list with that token's id for each token, -1: none; empty: made of the vocabulary of "
        "TOKENIZER_PATH");
  }
};

// Recurrence: some blocks run several times in one pass, from a fraction of the run on.
struct RecurrenceConfig {
  std::int64_t num_loops = 0;
  std::int64_t loop_start = 3;
  std::int64_t loop_end = 5;
  double enable_looping_at = 0.35;

  static void visit(auto& s, const auto& line, const auto&) {
    line("num_loops", s.num_loops, within(0, most_parts),
         role::fixed.of_recipe(RecipeChoice::last_record),
         "how often a pass repeats the blocks LOOP_START to LOOP_END; 0: no recurrence");
    line("loop_start", s.loop_start, at_least(0),
         role::fixed_if(s.num_loops > 0).of_recipe(RecipeChoice::last_record),
         "first block of the recurrence");
    line("loop_end", s.loop_end, at_least(0),
         role::fixed_if(s.num_loops > 0).of_recipe(RecipeChoice::last_record),
         "last block of the recurrence");
    line("enable_looping_at", s.enable_looping_at, at_least(0),
         role::fixed_if(s.num_loops > 0).of_recipe(RecipeChoice::last_record),
         "fraction of the run, or of its time where the schedule follows the clock, from which the "
         "blocks recur; 0: from the first step, 1 or more: never");
  }
};

// Two lanes of the residual stream in the last blocks: attention reads one, the MLP the other.
struct LanesConfig {
  std::int64_t parallel_start_layer = 0;
  ParallelFinalLane parallel_final_lane = ParallelFinalLane::mean;

  static void visit(auto& s, const auto& line, const auto&) {
    line("parallel_start_layer", s.parallel_start_layer, within(0, most_parts),
         role::fixed.of_recipe(RecipeChoice::last_record),
         "first block of the second half of a pass in which attention and MLP run side by side on "
         "two lanes of the residual stream; 0: none");
    line("parallel_final_lane", s.parallel_final_lane, anything,
         role::fixed_if(s.parallel_start_layer > 0).of_recipe(RecipeChoice::last_record),
         "what the head reads: the mean of the two lanes, or attention's or the MLP's alone");
  }
};

// Gates on the embedding, on the skips, and on the heads of attention.
struct GatesConfig {
  SmearKind smear = SmearKind::channels;
  bool skip_gates_enabled = false;
  HeadGateKind head_gate = HeadGateKind::off;
  double sparse_attn_gate_init_std = 0;
  double sparse_attn_gate_scale = 1;
  double gated_attn_init_std = 0.01;
  GateSource attn_out_gate_src = GateSource::proj;
  std::int64_t gate_window = 12;
  std::int64_t mudd_dim = 64;
  std::int64_t dc_window = 112;

  static void visit(auto& s, const auto& line, const auto& all) {
    line("smear", s.smear, anything, role::fixed,
         "mixes the previous token's embedding into each token's: channels, by a learned weight "
         "of each channel; gated, by a gate that reads its first GATE_WINDOW channels, within a "
         "document");
    line("skip_gates_enabled", s.skip_gates_enabled, anything,
         role::fixed.of_recipe(RecipeChoice::last_record)
             .ineffective_if(!all.model.unet_skips, "has no effect with UNET_SKIPS=0"),
         "gates that blend the residual stream and its skip, channel by channel");
    line("head_gate", s.head_gate, anything, role::fixed,
         "gate on the output of each attention head: full, of all channels of attention's input; "
         "biased, with a bias too; sparse, of its first GATE_WINDOW channels; output, of "
         "GATE_WINDOW channels of ATTN_OUT_GATE_SRC, between 0 and 2");
    line("sparse_attn_gate_init_std", s.sparse_attn_gate_init_std, at_least(0),
         role::fixed_if(s.head_gate == HeadGateKind::sparse),
         "standard deviation of the initial weights of HEAD_GATE=sparse");
    line("sparse_attn_gate_scale", s.sparse_attn_gate_scale, within(-1000, 1000),
         role::fixed_if(s.head_gate == HeadGateKind::sparse),
         "factor on the logits of HEAD_GATE=sparse");
    line("gated_attn_init_std", s.gated_attn_init_std, at_least(0),
         role::fixed_if(s.head_gate == HeadGateKind::full).of_recipe(RecipeChoice::last_record),
         "standard deviation of the initial weights of HEAD_GATE=full");
    line("attn_out_gate_src", s.attn_out_gate_src, anything,
         role::fixed_if(s.head_gate == HeadGateKind::output).of_recipe(RecipeChoice::last_record),
         "channels that HEAD_GATE=output reads: attention's input (proj), or the queries before "
         "norm and RoPE (q)");
    line("gate_window", s.gate_window, within(1, most_channels),
         role::fixed_if(mode::has_gate_window(all)),
         "first channels that SMEAR=gated, HEAD_GATE=sparse and HEAD_GATE=output read");
    line("mudd_dim", s.mudd_dim, within(1, most_channels), role::of_speedrun_2026(all),
         "hidden channels of the networks that compute each token's gates and mixes");
    line("dc_window", s.dc_window, within(1, most_tokens_in_row), role::of_speedrun_2026(all),
         "keys of the last layer's dynamically composable attention, the query's own included");
  }
};

// Attention windows that grow during a run, in RECIPE=speedrun_43, speedrun_89 and speedrun_91.
struct WindowsConfig {
  std::int64_t window_block = 128;
  CountSchedule short_window = 1;
  CountSchedule long_window = 1;
  std::int64_t final_long_window = 0;
  bool window_yarn = false;
  double attention_scale = 0;

  static void visit(auto& s, const auto& line, const auto& all) {
    const auto fixed =
        role::fixed_if(mode::has_own_layers(all))
            .of_recipe(RecipeChoice::speedrun_43)
            .ineffective_if(!mode::has_own_layers(all),
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
