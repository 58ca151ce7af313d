#pragma once
// Gates computed of the stream: on the embedding, on the skips, and on the heads of attention.
#include <cstdint>

#include "config/mode.h"
#include "config/role.h"
#include "config/types/choices.h"
#include "config/types/limits.h"

namespace tg {

struct GatesConfig {
  bool smear_gate_enabled = false;
  bool skip_gates_enabled = false;
  bool sparse_attn_gate_enabled = false;
  double sparse_attn_gate_init_std = 0;
  double sparse_attn_gate_scale = 1;
  bool gated_attn_enabled = false;
  double gated_attn_init_std = 0.01;
  bool attn_out_gate_enabled = false;
  GateSource attn_out_gate_src = GateSource::proj;
  std::int64_t gate_window = 12;

  template <class Self, class Line>
  static void visit(Self& s, const Line& line) {
    line("smear_gate_enabled", s.smear_gate_enabled, anything, role::frozen,
         "add to each token's embedding a share of the previous token's, by a gate on its first "
         "channels, within a document; SMEAR_GATE is another form of it");
    line("skip_gates_enabled", s.skip_gates_enabled, anything,
         role::frozen.ineffective_if(mode::has_no_skips, "has no effect with UNET_SKIPS=0"),
         "gates that share each channel out between the residual stream and its skip");
    line("sparse_attn_gate_enabled", s.sparse_attn_gate_enabled, anything, role::frozen,
         "gate on each head's output, of the first GATE_WINDOW channels of attention's input");
    line("sparse_attn_gate_init_std", s.sparse_attn_gate_init_std, at_least(0),
         role::frozen_if(mode::has_sparse_gate),
         "standard deviation of that gate's initial weights");
    line("sparse_attn_gate_scale", s.sparse_attn_gate_scale, within(-1000, 1000),
         role::frozen_if(mode::has_sparse_gate), "factor on that gate's logits");
    line("gated_attn_enabled", s.gated_attn_enabled, anything, role::frozen,
         "gate on each head's output, of all channels of attention's input, without a bias; "
         "GATED_ATTENTION is one with a bias");
    line("gated_attn_init_std", s.gated_attn_init_std, at_least(0),
         role::frozen_if(mode::has_full_gate), "standard deviation of that gate's initial weights");
    line("attn_out_gate_enabled", s.attn_out_gate_enabled, anything, role::frozen,
         "gate between 0 and 2 on each head's output, of GATE_WINDOW channels");
    line("attn_out_gate_src", s.attn_out_gate_src, anything, role::frozen_if(mode::has_output_gate),
         "whose channels that gate reads: attention's input (proj), or the queries before norm and "
         "RoPE (q)");
    line("gate_window", s.gate_window, within(1, most_channels),
         role::frozen_if(mode::has_gate_window),
         "first channels that the gates of SMEAR_GATE_ENABLED, SPARSE_ATTN_GATE_ENABLED and "
         "ATTN_OUT_GATE_ENABLED read");
  }
};

}  // namespace tg
