#pragma once
// Gates on the embedding, on the skips, and on the heads of attention.
#include <cstdint>

#include "config/mode.h"
#include "config/role.h"
#include "config/types/choices.h"
#include "config/types/limits.h"

namespace tg {

namespace role {
// A setting of the layers of the speedrun's records 89 and 91.
inline constexpr Role of_speedrun_2026 =
    fixed_if(mode::is_speedrun_of_2026)
        .of_recipe(RecipeChoice::speedrun_89)
        .ineffective_if(mode::negated<mode::is_speedrun_of_2026>,
                        "has no effect without RECIPE=speedrun_89 or speedrun_91");
}  // namespace role

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

  static void visit(auto& s, const auto& line) {
    line("smear", s.smear, anything, role::fixed,
         "mixes the previous token's embedding into each token's: channels, by a learned weight "
         "of each channel; gated, by a gate that reads its first GATE_WINDOW channels, within a "
         "document");
    line("skip_gates_enabled", s.skip_gates_enabled, anything,
         role::fixed.of_recipe(RecipeChoice::last_record)
             .ineffective_if(mode::has_no_skips, "has no effect with UNET_SKIPS=0"),
         "gates that blend the residual stream and its skip, channel by channel");
    line("head_gate", s.head_gate, anything, role::fixed,
         "gate on the output of each attention head: full, of all channels of attention's input; "
         "biased, with a bias too; sparse, of its first GATE_WINDOW channels; output, of "
         "GATE_WINDOW channels of ATTN_OUT_GATE_SRC, between 0 and 2");
    line("sparse_attn_gate_init_std", s.sparse_attn_gate_init_std, at_least(0),
         role::fixed_if(mode::has_sparse_gate),
         "standard deviation of the initial weights of HEAD_GATE=sparse");
    line("sparse_attn_gate_scale", s.sparse_attn_gate_scale, within(-1000, 1000),
         role::fixed_if(mode::has_sparse_gate), "factor on the logits of HEAD_GATE=sparse");
    line("gated_attn_init_std", s.gated_attn_init_std, at_least(0),
         role::fixed_if(mode::has_full_gate).of_recipe(RecipeChoice::last_record),
         "standard deviation of the initial weights of HEAD_GATE=full");
    line("attn_out_gate_src", s.attn_out_gate_src, anything,
         role::fixed_if(mode::has_output_gate).of_recipe(RecipeChoice::last_record),
         "channels that HEAD_GATE=output reads: attention's input (proj), or the queries before "
         "norm and RoPE (q)");
    line("gate_window", s.gate_window, within(1, most_channels),
         role::fixed_if(mode::has_gate_window),
         "first channels that SMEAR=gated, HEAD_GATE=sparse and HEAD_GATE=output read");
    line("mudd_dim", s.mudd_dim, within(1, most_channels), role::of_speedrun_2026,
         "hidden channels of the networks that compute each token's gates and mixes");
    line("dc_window", s.dc_window, within(1, most_tokens_in_row), role::of_speedrun_2026,
         "keys of the last layer's dynamically composable attention, the query's own included");
  }
};

}  // namespace tg
