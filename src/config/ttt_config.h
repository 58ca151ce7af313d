#pragma once
// Test-time training: the model trains on validation tokens after it has scored them.
#include <cstdint>

#include "config/limits.h"

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

  template <class V>
  void visit(V&& v) {
    list(*this, v);
  }
  template <class V>
  void visit(V&& v) const {
    list(*this, v);
  }

 private:
  template <class Self, class V>
  static void list(Self& s, V& v) {
    v("ttt_enabled", s.ttt_enabled, anything,
      "score validation chunk by chunk, training on what was scored");
    v("ttt_lr", s.ttt_lr, at_least(0), "learning rate of the first chunk");
    v("ttt_epochs", s.ttt_epochs, at_least(0), "passes over a scored chunk");
    v("ttt_chunk_tokens", s.ttt_chunk_tokens, within(1, most_tokens), "tokens of a chunk");
    v("ttt_freeze_blocks", s.ttt_freeze_blocks, at_least(0), "first blocks that are left alone");
    v("ttt_momentum", s.ttt_momentum, fraction, "momentum, kept across chunks");
    v("ttt_batch_seqs", s.ttt_batch_seqs, at_least(1), "rows of a batch");
    v("ttt_grad_clip", s.ttt_grad_clip, at_least(0),
      "largest norm of its gradient; 0: no clipping");
  }
};

}  // namespace tg
