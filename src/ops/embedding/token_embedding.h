#pragma once
#include <ATen/ATen.h>

namespace tg {

// The input of the first block: x = smear(rms_norm(table[ids] + scale·bigram), gate), see
// rms_norm.h and smear.h. Differentiable in all inputs but ids; the table's gradient is
// embedding_gradient() (embedding_lookup.h).
struct TokenEmbedding {
  at::Tensor table_vd;
  at::Tensor ids_bt;        // int64
  at::Tensor bigram_btd;    // of the table's dtype; undefined: no bigrams and no scale
  at::Tensor bigram_scale;  // []
  at::Tensor smear_gate_d;  // undefined: no smear
};

// → [B, T, D] in the table's dtype.
at::Tensor token_embedding(const TokenEmbedding& of);

}  // namespace tg
