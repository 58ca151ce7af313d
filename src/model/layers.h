#pragma once
// The calls that a recipe's flow (Plan::flow) is made of. Each computes a part of a layer call with
// the kernels chosen for it, and handles FP8, adapters, caches, scored positions and observers, so
// that a flow reads like its formula.
#include <ATen/ATen.h>

#include "model/attention.h"
#include "model/pass_inputs.h"
#include "model/plan.h"
#include "model/weights.h"
#include "ops/fused.h"
#include "ops/gemm/normed_input.h"
#include "ops/norm/lanes_norm.h"
#include "ops/norm/residual_norm.h"

namespace tg {

// Kernels of a layer call, and the forms in which its norms pass their rows to them.
struct VisitKernels {
  Kernel qkv{}, out{}, mlp{};
  NormedForm attention_input{}, mlp_input{};
};

class Layers;

// One layer call, with norm scale s:
//   n = rms(x)·s,  attention(n),  mlp(n) = W_down(leaky(W_up·n)²)
// attn_scale and mlp_scale are in the output projection and in W_down (BlockWeights).
class Layer {
 public:
  // Everything must outlive it. x [B, T, D]: shaped like the call's rows.
  Layer(const Layers& layers, const Visit& visit, const PassInputs& pass, const at::Tensor& x);

  const Visit& visit() const { return visit_; }
  const BlockPlan& block() const;

  // The sum of `terms` and its norm, for attention; `keep` as in residual_norm().
  ResidualNorm norm_for_attention(const MixTerms& terms, std::size_t keep = 0) const;
  // Returns the sum of `terms` and its norm, for the MLP of a call without attention that is not
  // the last one.
  ResidualNorm norm_for_mlp(const MixTerms& terms, std::size_t keep = 0) const;
  // The lanes of `terms` and their norms, of the first for attention and of the second for the MLP.
  NormedLanes norm_lanes(const LaneTerms& terms) const;
  // Returns attention's output before the projection. `values` [B, T, KV·hd] are added to the
  // block's own; first_v are the first call's values, for a value residual. Both may be undefined.
  Attention::Output attention(const NormedInput& n_btd, const at::Tensor& values,
                              const at::Tensor& first_v) const;
  // The sum of x and attention's output projection, and its norm, for the MLP; of scored rows.
  ResidualNorm add_attention(const at::Tensor& x_btd, const Attention::Output& attended) const;
  // That projection alone.
  MixTerm project(const Attention::Output& attended) const;
  // The MLP's output, as a term; of scored rows.
  MixTerm mlp(const NormedInput& n_btd) const;
  // The rows of x [B, T, …] that are scored, contiguous.
  at::Tensor scored(const at::Tensor& x) const;
  // The scored rows of a norm.
  NormedInput scored(const NormedInput& n) const;

 private:
  // For the GEMM of `weight`, which takes its rows in that form.
  NormOptions norm(NormedForm form, const Weight& weight) const;

  const Layers& layers_;
  const Visit& visit_;
  const PassInputs& pass_;
  const BlockWeights& weights_;
  const VisitKernels kernels_;
};

class Layers {
 public:
  // Everything must outlive it. Passes with gradients keep what `recompute` says for backward:
  // `light` not the MLP's activation, `block` nothing but what a block passes to the next.
  Layers(const Plan& plan, const ComputeSizes& sizes, const ParameterTable& table,
         const WeightCopies& weights, const Numerics& numerics);

  const Plan& plan() const { return plan_; }
  at::Tensor operator[](ParameterId id) const { return table_[id]; }
  // What the stream is multiplied by that is made once a step.
  const StreamWeights& stream_weights() const { return weights_.stream(); }
  // A parameter [..., MODEL_DIM] in the width that the blocks compute with.
  at::Tensor widened(const at::Tensor& parameter) const;
  // Whether the flow must wrap each call in recomputed().
  bool recomputes_blocks() const;
  // Returns the kernels of a call on rows like x [B, T, D], with gradients or without as autograd
  // is now.
  VisitKernels choose_kernels(const Visit& visit, const at::Tensor& x,
                              const PassInputs& pass) const;
  // The rows of a table of value embeddings [V, channels] for ids [B, T] → [B, T, channels]; none:
  // undefined.
  at::Tensor value_embedding(ParameterId table, const at::Tensor& ids_bt) const;
  // Returns a call's projection of the value embedding [B, T, KV·hd], or undefined.
  at::Tensor visit_values(const Visit& visit, const at::Tensor& embedded) const;
  // For the head.
  NormOptions head_norm(const PassInputs& pass) const;

 private:
  friend class Layer;

  const Plan& plan_;
  const ComputeSizes& sizes_;
  const ParameterTable& table_;
  const WeightCopies& weights_;
  const Numerics& numerics_;
  const Attention attention_;
};

}  // namespace tg
