#pragma once
#include <ATen/ATen.h>

#include <array>

#include "model/padding.h"
#include "model/pass_inputs.h"
#include "model/plan.h"
#include "model/weights.h"
#include "ops/attention/gates/head_gate.h"
#include "ops/attention/gates/weighted_heads.h"
#include "ops/attention/projection/qk_norm_rope.h"
#include "ops/passed_gradients.h"

namespace tg {

// Attention of a layer call, with the gains, gates and value residual of the plan.
class Attention {
 public:
  // Plan and table must outlive it.
  Attention(const Plan& plan, const ComputeSizes& sizes, const ParameterTable& table);

  struct Output {
    at::Tensor y;                 // [B, T, heads·hd], before the output projection
    at::Tensor first_v;           // values of the first layer call, for the next layer call
    PassedGradientsPtr passed{};  // to and from the output projection, or null
    LoraPass::Inner inner{};      // for the adapter beside the output projection
  };
  // n [B, T, D]: the normed input of the layer call. `values` [B, T, KV·hd]: its value embedding,
  // and first_v: the values of the first layer call; both may be undefined. token_weights: at all
  // positions, also where only scored ones are computed; pre and post if the layer call has a
  // composed_window.
  Output forward(const LayerCall& call, const NormedInput& n_btd, const BlockWeights& weights,
                 at::Tensor values, const at::Tensor& first_v, const PassInputs& pass, Kernel qkv,
                 const TokenHeadWeights& token_weights = {}) const;
  // Kernel of the QKV projection of a layer call with rows like x [B, T, D], and the form in which
  // that kernel reads n.
  Kernel choose_qkv(const LayerCall& call, const BlockWeights& weights, const at::Tensor& x,
                    const PassInputs& pass) const;
  NormedForm input(const LayerCall& call, const BlockWeights& weights, const at::Tensor& x,
                   const PassInputs& pass, Kernel qkv) const;

 private:
  QkvInputs inputs(const LayerCall& call, const at::Tensor& values, const at::Tensor& first_v,
                   const PassInputs& pass, const PassedGradientsPtr& passed = {}) const;
  // The first `count` query channels, before norm and RoPE: computed, or, if the projection has
  // adapters, sliced from its output `adapted` [B, T, q + k + v].
  at::Tensor first_queries(const at::Tensor& n_btd, const Weight& qkv, const at::Tensor& adapted,
                           std::int64_t count) const;
  // Undefined if the block has no gate. `n_btd` as for forward(), `adapted` as for first_queries().
  HeadGateInputs head_gate(const LayerCall& call, const NormedInput& n_btd, const Weight& qkv,
                           const at::Tensor& adapted, const PassedGradientsPtr& passed,
                           const PassInputs& pass) const;
  // Attention's output [B, T or scored, heads, hd]; token_weights: at the same positions; rounding:
  // how the output projection quantizes it.
  at::Tensor attend(const LayerCall& call, const Qkv& heads, const HeadGateInputs& gate,
                    const PassInputs& pass, const PassedGradientsPtr& passed,
                    const TokenHeadWeights& token_weights, const Fp8Scaling& rounding) const;
  // The keys and values up to the last query's position. Adds the heads to the cache, if any.
  std::array<at::Tensor, 2> seen_by(const LayerCall& call, const Qkv& heads,
                                    const PassInputs& pass) const;
  // Attention alone, of the last positions of k and v in passes with scored positions or a cache.
  at::Tensor plain_attention(const LayerCall& call, const at::Tensor& q, const at::Tensor& k,
                             const at::Tensor& v, const PassInputs& pass,
                             const PassedGradientsPtr& passed) const;

  const Plan& plan_;
  const ParameterTable& table_;
  const ComputeSizes padded_;
};

}  // namespace tg
