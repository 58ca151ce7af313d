#pragma once
#include <ATen/ATen.h>

#include "model/attention.h"
#include "model/stream.h"
#include "model/visit_kernels.h"

namespace tg {

// The transformer blocks of a plan. A visit of one:
//   h = m0·(x + w·skip) + m1·x0, the skip with gates as Visit::Skip says
//   h += a·attention(rms(h)·s),  h += b·W_down(leaky(W_up·rms(h)·s)²)
// with s its norm scale; a and b are in attention's output matrix and in W_down (BlockWeights).
// With an update gate each token's update is scaled: x_in + σ(gate(x_in))·(h − x_in), where x_in is
// the first line's h. With two lanes as LaneMix says, of h for attention and lane 1 for the MLP.
class Blocks {
 public:
  // Everything must outlive it.
  Blocks(const ModelConfig& config, const Plan& plan, const ComputeSizes& sizes,
         const ParameterTable& table, const WeightCopies& weights, ActivationRecompute recompute);

  // Passes with gradients keep what `recompute` says for backward: `light` not the MLP's
  // activation, `block` nothing but the stream.
  Stream visit(const Visit& visit, const Stream& in, const PassInputs& pass) const;
  // Of a visit whose rows are like those of x [B, T, D], with gradients or without as autograd is
  // now.
  VisitKernels choose_kernels(const Visit& visit, const at::Tensor& x,
                              const PassInputs& pass) const;

 private:
  Stream run(const Visit& visit, const Stream& in, const PassInputs& pass) const;
  Stream run_lanes(const Visit& visit, const Stream& in, const PassInputs& pass) const;
  // The terms of the first line, of one lane.
  MixTerms entry(const Visit& visit, const Stream& in) const;
  // For the GEMM of `weight`, which takes its rows in that form.
  NormOptions norm(const Visit& visit, NormedForm form, const Weight& weight) const;
  // A parameter [..., MODEL_DIM] in the width that the blocks compute with.
  at::Tensor widened(const at::Tensor& parameter) const;
  // m0 and m1 of the visit's block, [2, D] or [2].
  at::Tensor mix(const Visit& visit) const;
  at::Tensor mlp(const Visit& visit, const NormedInput& x, const BlockWeights& weights,
                 const PassInputs& pass, Kernel kernel) const;
  // σ(gate(x)) [B, T, 1], without a gradient for x.
  at::Tensor update_share(const Gate& gate, const at::Tensor& x) const;

  const Plan& plan_;
  const ParameterTable& table_;
  const WeightCopies& weights_;
  Attention attention_;
  ActivationRecompute recompute_;
  std::int64_t dim_, padded_dim_;
  double negative_slope_;
};

}  // namespace tg
