#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <tuple>

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

  // Returns the last call's output, normalised [B, T, D]; with `only`, of these positions alone.
  // RoPE is the pass's own, else numerics.rope's for as many tokens as attention spans: T, a
  // document's, or the cache's context, and at least `context`.
  NormedInput final_states(const at::Tensor& inputs_bt, const Pass& visits, PassInputs pass,
                           std::int64_t context = 0) const;
  // The head for training and scoring, padded, or with `rows` rows where it is the token table and
  // not padded once for all passes.
  Weight head(std::int64_t rows, bool fp8 = false) const;
  // Returns the kernels of the pass's first call on rows like x [B, T, D], with gradients or
  // without as autograd is now; `context`: tokens that attention spans.
  VisitKernels choose_kernels(const Pass& visits, const at::Tensor& x, std::int64_t context,
                              bool fp8) const;

 private:
  // `document_ends` [B, T] int32: of a token, where in its row its document ends, of which smear
  // and bigrams read no other; undefined: a row is one document.
  at::Tensor embed(const at::Tensor& inputs_bt, const at::Tensor& document_ends_bt) const;
  // The inputs of a pass, which the ids of its cache precede.
  at::Tensor embed(const at::Tensor& inputs_bt, const PassInputs& pass) const;
  // `context`: that attention spans.
  const RopeTable& rope_table(const Pass& visits, std::int64_t seq_len, std::int64_t context,
                              at::Device device) const;
  // Returns the rotations of the inputs' positions.
  RopeTable rope_rows(const Pass& visits, const at::Tensor& inputs_bt, const PassInputs& pass,
                      std::int64_t context) const;
  // What makes 1/√head_dim of attention the pass's own scale; undefined where it has none.
  at::Tensor q_gain(const Pass& visits, at::Device device) const;

  const Numerics& numerics_;
  const ComputeSizes& sizes_;
  const Plan& plan_;
  const ParameterTable& table_;
  const WeightCopies& weights_;
  const Layers layers_;
  // By arguments, passes by their frequencies.
  mutable std::map<std::tuple<const void*, std::int64_t, std::int64_t>, RopeTable> rope_tables_;
  mutable std::map<double, at::Tensor> q_gains_;  // by scale
};

}  // namespace tg
