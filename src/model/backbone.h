#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <tuple>

#include "model/layers.h"
#include "model/pass_inputs.h"

namespace tg {

// The Transformer body: embedding, the plan's flow over the layers, and final norm, from token ids
// to the states that the head reads. Letters as in gpt.h.
class Backbone : private Layers {
 public:
  using Layers::Layers;

  // The normed output of the last layer call [B, T, D]; with `only`, at these positions. RoPE uses
  // the frequencies of `layer calls`, or frequencies that numerics.rope gives for the number of
  // tokens that attention spans: T, the longest document, or the cache's context, and at least
  // `context`.
  NormedInput final_states(const at::Tensor& inputs_bt, const Pass& calls, PassInputs pass,
                           std::int64_t context = 0) const;
  // The head for training and scoring, padded; if it is the token table without a padded copy,
  // padded here to `rows` rows.
  Weight head(std::int64_t rows, bool fp8 = false) const;
  // Kernels of the first layer call on rows like x [B, T, D], for training if grad mode is enabled;
  // `context`: tokens that attention spans.
  LayerKernels choose_kernels(const Pass& calls, const at::Tensor& x, std::int64_t context,
                              bool fp8) const;

 private:
  // `document_ends` [B, T] int32: the end, in the row, of each token's document, which bounds what
  // smear and bigrams read; undefined: a row is one document.
  at::Tensor embed(const at::Tensor& inputs_bt, const at::Tensor& document_ends_bt,
                   std::shared_ptr<IdOrder> id_order) const;
  // Embeds the inputs of a pass; the cache's last ids precede them.
  at::Tensor embed(const at::Tensor& inputs_bt, const PassInputs& pass) const;
  // Tables of a pass; `paired` is undefined if no layer call has paired heads.
  struct RopeTables {
    RopeTable plain, paired;
  };
  // `context`: tokens that attention spans.
  const RopeTables& rope_tables(const Pass& calls, std::int64_t seq_len, std::int64_t context,
                                at::Device device) const;
  // Rows of the tables at the inputs' positions.
  RopeTables rope_rows(const Pass& calls, const at::Tensor& inputs_bt, const PassInputs& pass,
                       std::int64_t context) const;
  // Gain that turns attention's scale 1/√qk_head_dim into the pass's own; undefined if it has none.
  at::Tensor q_gain(const Pass& calls, at::Device device) const;

  // Key: frequencies of the pass, whether it has paired heads, row length, context.
  mutable std::map<std::tuple<const void*, bool, std::int64_t, std::int64_t>, RopeTables>
      rope_tables_;
  mutable std::map<double, at::Tensor> q_gains_;  // by scale
};

}  // namespace tg
