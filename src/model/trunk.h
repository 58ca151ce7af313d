#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <utility>

#include "model/inference.h"
#include "model/layers.h"
#include "model/numerics.h"
#include "model/pass_inputs.h"
#include "model/plan.h"
#include "model/weights.h"

namespace tg {

// All of a model but what is done with its head: from token ids through the embedding and the
// plan's flow to the states that the head reads. Letters as in gpt.h.
class Trunk {
 public:
  // Everything must outlive it; `weights`: the copies of `table`.
  Trunk(const Numerics& numerics, const ComputeSizes& sizes, const Plan& plan,
        const ParameterTable& table, const WeightCopies& weights);

  // The last of these visits' output, normalised [B, T, D]; with `only`, of these positions alone.
  // RoPE is that of numerics.rope, where attention spans T tokens, those of a document, or the
  // cache's context; and at least `context`.
  NormedInput final_states(const at::Tensor& inputs_bt, const Pass& visits, PassInputs pass,
                           std::int64_t context = 0) const;
  // The head for training and scoring, padded, or with `rows` rows where it is the token table and
  // not padded once for all passes.
  Weight head(std::int64_t rows, bool fp8 = false) const;
  // Of a visit whose rows are like those of x [B, T, D], with gradients or without as autograd is
  // now; `context`: that attention spans.
  VisitKernels choose_kernels(const Visit& visit, const at::Tensor& x, std::int64_t context,
                              bool fp8) const;

 private:
  // `document_ends` [B, T] int32: of a token, where in its row its document ends, of which smear
  // and bigrams read no other; undefined: a row is one document.
  at::Tensor embed(const at::Tensor& inputs_bt, const at::Tensor& document_ends_bt) const;
  // The inputs of a pass, which the ids of its cache precede.
  at::Tensor embed(const at::Tensor& inputs_bt, const PassInputs& pass) const;
  // `context`: that attention spans.
  const RopeTable& rope_table(std::int64_t seq_len, std::int64_t context, at::Device device) const;
  // Of the inputs' positions.
  RopeTable rope_rows(const at::Tensor& inputs_bt, const PassInputs& pass,
                      std::int64_t context) const;

  const Numerics& numerics_;
  const ComputeSizes& sizes_;
  const Plan& plan_;
  const ParameterTable& table_;
  const WeightCopies& weights_;
  const Layers layers_;
  mutable std::map<std::pair<std::int64_t, std::int64_t>, RopeTable> rope_tables_;  // by arguments
};

}  // namespace tg
