#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "ops/embedding/embedding_lookup.h"
#include "ops/embedding/smear.h"

namespace tg {

// Inputs of token_embedding(). Differentiable in all but ids. The table's gradient is
// embedding_gradient() (embedding_lookup.h), not rounded to `dtype`; with `table_gradient` it
// accumulates there, and autograd gets no gradient for the table.
struct TokenEmbedding {
  at::Tensor table_vd;
  at::Tensor ids_bt;        // int64
  at::Tensor bigram_btd;    // in `dtype`; undefined: no bigram term
  at::Tensor bigram_scale;  // []
  at::Tensor smear_gate_d;  // undefined: no smear()
  // Number of channels of D without padding, for rms_norm's mean; the others are zero. 0: all.
  std::int64_t channels = 0;
  std::optional<at::ScalarType> dtype{};  // of the result; default: the table's
  SmearGate gated_smear{};                // of gated_smear(); excludes smear_gate_d
  at::Tensor table_gradient_vd{};         // fp32, or undefined
  // [B, T] int32: for each token, the position in its row at which its document ends, for smear();
  // undefined: a row is one document.
  at::Tensor document_ends_bt{};
  std::shared_ptr<IdOrder> id_order{};  // of ids_bt, as for embedding_lookup()
};

// Computes the input of the first block [B, T, D]: smear(rms_norm(table[ids] + scale·bigram),
// gate), or rms_norm(gated_smear(table[ids] + scale·bigram)); see rms_norm.h, smear.h and
// gated_smear.h.
at::Tensor token_embedding(const TokenEmbedding& inputs);

}  // namespace tg
