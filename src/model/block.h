#pragma once
#include <ATen/ATen.h>

#include "model/attention.h"

namespace tg {

// The residual stream between blocks. The output of the last MLP is still a separate branch: the
// next norm's kernel adds it in the same pass over memory.
struct Residual {
  at::Tensor x;          // [B, T, D]
  at::Tensor branch;     // x + branch is the block's output
  at::Tensor x0;         // the first block's input
  at::Tensor first_v{};  // the first layer's values [B, T, KV, hd], or undefined
  // Of the FP8 product that `branch` is; undefined: of no such.
  Fp8Scaling branch_gradient_scaling{};

  // Adds the branch to x → the block's output.
  const at::Tensor& add_branch();
};

// One transformer block:
//   h = m0·(x + w·skip) + m1·x0
//   h += a·attention(rms(h)·s),  h += b·W_down(leaky(W_up·rms(h)·s)²),  s = 1/√(layer+1) with
//   LN_SCALE; a and b are in attention's output matrix and in W_down (LayerWeights)
// With DTG a gate per token scales the update: x_in + σ(gate(x_in))·(h − x_in), where x_in is the
// first line's h.
class Block {
 public:
  Block(const ModelConfig& config, const ComputeSizes& sizes, const ParameterTable& table,
        std::int64_t layer, ActivationRecompute recompute = ActivationRecompute::off);

  // Without a weight [D] there is none; with a weight alone it is the block's own input, the output
  // of the last block that a U-Net pushes, and part of m0.
  struct Skip {
    at::Tensor x, weight;  // x [B, T, D]
    bool is_input() const { return weight.defined() && !x.defined(); }
  };
  // Passes with gradients keep what `recompute` says for backward: `light` not the MLP's
  // activation, `block` nothing but the inputs. `previous_output`, if not null, receives the
  // previous block's output, for a later block's skip. With `pass.only` the output is of these
  // positions alone: for the last block, whose others no block reads.
  Residual forward(const Residual& in, const Skip& skip, at::Tensor* previous_output,
                   const LayerWeights& weights, const RopeTable& rope_table,
                   const at::Tensor& value_embedding, const InferencePass& pass = {}) const;

 private:
  Residual run(const Residual& in, const Skip& skip, at::Tensor* previous_output,
               const LayerWeights& weights, const RopeTable& rope_table,
               const at::Tensor& value_embedding, const InferencePass& pass) const;
  Residual run_recomputed(const Residual& in, const Skip& skip, at::Tensor* previous_output,
                          const LayerWeights& weights, const RopeTable& rope_table,
                          const at::Tensor& value_embedding) const;
  // A parameter [..., MODEL_DIM] in the width that the block computes with.
  at::Tensor widened(const at::Tensor& parameter) const;
  // m0 and m1, [2, D] or [2].
  at::Tensor mix(const Skip& skip) const;

  Attention attention_;
  ActivationRecompute recompute_;
  std::int64_t dim_, padded_dim_;
  double norm_scale_, negative_slope_;
  at::Tensor resid_mix_, dtg_weight_, dtg_bias_;
};

}  // namespace tg
