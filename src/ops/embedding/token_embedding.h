#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>

#include "ops/embedding/gated_smear.h"

namespace tg {

// The input of the first block: x = smear(rms_norm(table[ids] + scale·bigram), gate), or
// x = rms_norm(gated_smear(table[ids] + scale·bigram)), see rms_norm.h, smear.h and gated_smear.h.
// Differentiable in all inputs but ids; the table's gradient is embedding_gradient()
// (embedding_lookup.h), not rounded to `dtype`; with `table_gradient` it accumulates there, and
// autograd gets none for the table.
struct TokenEmbedding {
  at::Tensor table_vd;
  at::Tensor ids_bt;        // int64
  at::Tensor bigram_btd;    // of `dtype`; undefined: no bigrams and no scale
  at::Tensor bigram_scale;  // []
  at::Tensor smear_gate_d;  // undefined: no smear()
  // Columns that rms_norm averages; the others are padding, zero everywhere. 0: all.
  std::int64_t channels = 0;
  std::optional<at::ScalarType> dtype{};  // of the result; by default the table's
  SmearGate gated_smear{};                // of gated_smear(); not beside smear_gate_d
  at::Tensor table_gradient_vd{};         // fp32, or undefined
  // [B, T] int32: of a token, where in its row its document ends, of which smear() reads no other;
  // undefined: a row is one document.
  at::Tensor document_ends_bt{};
};

// → [B, T, D].
at::Tensor token_embedding(const TokenEmbedding& of);

}  // namespace tg
