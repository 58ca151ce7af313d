#pragma once
// The operations that a recipe's flow (Plan::flow) composes. Each computes a part of a layer call
// with the kernels chosen for it; FP8, adapters, caches, scored positions and observers are handled
// here, so that a flow reads like its formula.
#include <ATen/ATen.h>

#include <memory>

#include "model/attention.h"
#include "model/pass_inputs.h"
#include "model/plan.h"
#include "model/weights.h"
#include "ops/fused.h"
#include "ops/gemm/normed_input.h"
#include "ops/norm/residual_norm.h"

namespace tg {

// Kernels of a layer call, and the forms in which its norms pass rows to them.
struct LayerKernels {
  Kernel qkv{}, out{}, mlp{};
  NormedForm attention_input{}, mlp_input{};
};

class Layers;

// One layer call, with norm scale s:
//   n = rms(x)·s,  attention(n),  mlp(n) = W_down(leaky(W_up·n)²)
// attn_scale and mlp_scale are folded into the output projection and W_down (BlockWeights).
class Layer {
 public:
  // All arguments must outlive it. x [B, T, D]: like the rows of the layer call.
  Layer(const Layers& layers, const LayerCall& call, const PassInputs& pass, const at::Tensor& x);

  const LayerCall& call() const { return call_; }
  const BlockPlan& block() const;

  // The sum of `terms` and its norm, for attention; `keep` as for residual_norm().
  ResidualNorm norm_for_attention(const MixTerms& terms, std::size_t keep = 0) const;
  // The sum of `terms` and its norm, for the MLP of a layer call without attention. Not for the
  // last layer call.
  ResidualNorm norm_for_mlp(const MixTerms& terms, std::size_t keep = 0) const;
  // The lanes that `terms` sum to and their norms: lane 0 for attention, lane 1 for the MLP.
  NormedLanes norm_lanes(const LaneTerms& terms) const;
  // Attention before the output projection. `values` [B, T, KV·hd]: added to the block's own
  // values; first_v: values of the first layer call, for a value residual. Both may be undefined.
  // token_weights: of the heads at all positions.
  Attention::Output attention(const NormedInput& n_btd, const at::Tensor& values,
                              const at::Tensor& first_v,
                              const TokenHeadWeights& token_weights = {}) const;
  // Adds attention's output projection to x and norms the sum for the MLP; scored rows only.
  ResidualNorm add_attention(const at::Tensor& x_btd, const Attention::Output& attended) const;
  // The output projection alone, as a term.
  MixTerm project(const Attention::Output& attended) const;
  // The MLP's output, as a term; scored rows only.
  MixTerm mlp(const NormedInput& n_btd) const;
  // The scored rows of x [B, T, …], contiguous.
  at::Tensor scored(const at::Tensor& x) const;
  // The scored rows of a normed input.
  NormedInput scored(const NormedInput& n) const;

 private:
  // Options of a norm whose rows the GEMM of `weight` reads in this form.
  NormOptions norm(NormedForm form, const Weight& weight) const;

  const Layers& layers_;
  const LayerCall& call_;
  const PassInputs& pass_;
  const BlockWeights& weights_;
  const LayerKernels kernels_;
};

// Part `index` of a table whose rows are `count` tables of equal size.
struct TablePart {
  std::int64_t index = 0, count = 1;
};

class Layers {
 public:
  // All arguments must outlive it; `weights`: the copies of `table`. `numerics.recompute` selects
  // the activations that passes with gradients save: `light` all but the MLP's activation, `block`
  // only what a block passes to the next.
  Layers(const Plan& plan, const ComputeSizes& sizes, const ParameterTable& table,
         const WeightCopies& weights, const Numerics& numerics);

  const Plan& plan() const { return plan_; }
  at::Tensor operator[](ParameterId id) const { return table_[id]; }
  // Per-step coefficients of the residual stream.
  const ResidualCoefficients& residual_coefficients() const { return weights_.stream(); }
  // A parameter [..., MODEL_DIM], padded to the width of the activations.
  at::Tensor widened(const at::Tensor& parameter) const;
  // Returns whether the flow must wrap each layer call in recomputed().
  bool recomputes_blocks() const;
  // Kernels for a layer call with rows like x [B, T, D], for training if grad mode is enabled.
  LayerKernels choose_kernels(const LayerCall& call, const at::Tensor& x,
                              const PassInputs& pass) const;
  // Looks up ids [...] in a table [rows, channels], or in a part of it, → [..., channels] in
  // `compute`; undefined if the table is none. `order`: of the ids; null: the lookup sorts them.
  at::Tensor embedding(ParameterId table, const at::Tensor& ids,
                       std::shared_ptr<IdOrder> order = {}, const TablePart& part = {}) const;
  // The layer call's projection of the value embedding [B, T, KV·hd], or undefined.
  at::Tensor call_values(const LayerCall& call, const at::Tensor& embedded) const;
  // x [B, T, at least KV·hd] as the `values` of Layer::attention(), padded to the width of the
  // heads.
  at::Tensor as_values(const at::Tensor& x_btd) const;
  // Options of the final norm, whose output the head reads.
  NormOptions head_norm(const PassInputs& pass) const;

 protected:
  friend class Layer;

  const Plan& plan_;
  const ComputeSizes& sizes_;
  const ParameterTable& table_;
  const WeightCopies& weights_;
  const Numerics& numerics_;
  const Attention attention_;
};

}  // namespace tg
