#pragma once
// Test-time training: the model trains on validation tokens after it has scored them.
#include <cstdint>

#include "config/role.h"
#include "config/types/limits.h"

namespace tg {

struct TttConfig {
  bool ttt_enabled = false;
  double ttt_lr = 0.002;
  std::int64_t ttt_epochs = 3;
  std::int64_t ttt_chunk_tokens = 32768;
  std::int64_t ttt_freeze_blocks = 2;
  double ttt_momentum = 0.9;
  std::int64_t ttt_batch_seqs = 32;
  double ttt_grad_clip = 1;

  template <class Self, class Line>
  static void visit(Self& s, const Line& line) {
    line("ttt_enabled", s.ttt_enabled, anything, role::free,
         "score validation chunk by chunk, and train on each scored chunk");
    line("ttt_lr", s.ttt_lr, at_least(0), role::free, "learning rate of the first chunk");
    line("ttt_epochs", s.ttt_epochs, at_least(0), role::free, "passes over a scored chunk");
    line("ttt_chunk_tokens", s.ttt_chunk_tokens, within(1, most_tokens), role::free,
         "tokens of a chunk");
    line("ttt_freeze_blocks", s.ttt_freeze_blocks, at_least(0), role::free,
         "first blocks that stay fixed");
    line("ttt_momentum", s.ttt_momentum, fraction, role::free,
         "momentum of SGD, kept across chunks");
    line("ttt_batch_seqs", s.ttt_batch_seqs, at_least(1), role::free,
         "sequences of a batch, per rank");
    line("ttt_grad_clip", s.ttt_grad_clip, at_least(0), role::free,
         "maximum norm of the gradient; 0: no clipping");
  }
};

}  // namespace tg
