#pragma once
#include <ATen/ATen.h>

#include "model/padding.h"
#include "model/pass_inputs.h"
#include "model/plan.h"
#include "model/weights.h"
#include "ops/attention/head_gate.h"
#include "ops/attention/qk_norm_rope.h"
#include "ops/norm/input_dots.h"

namespace tg {

// Attention of the layer calls, with the gains, gates and value residual of the plan.
class Attention {
 public:
  // Plan and table must outlive it.
  Attention(const Plan& plan, const ComputeSizes& sizes, const ParameterTable& table);

  struct Output {
    at::Tensor y;             // [B, T, heads·hd], before the output projection
    at::Tensor first_v;       // the first call's values, for the next call
    InputDotsPtr y_dots;      // for the backward pass of the output projection
    LoraPass::Inner inner{};  // for the adapter beside the output projection
  };
  // n [B, T, D]: the call's normed input; `values` [B, T, KV·hd]: its value embedding; first_v: the
  // first call's values. Both may be undefined.
  Output forward(const Visit& visit, const NormedInput& n_btd, const BlockWeights& weights,
                 at::Tensor values, const at::Tensor& first_v, const PassInputs& pass,
                 Kernel qkv) const;
  // Returns what computes the QKV projection of a call whose rows are like x [B, T, D], and the
  // form in which it takes n.
  Kernel choose_qkv(const Visit& visit, const BlockWeights& weights, const at::Tensor& x,
                    const PassInputs& pass) const;
  NormedForm input(const Visit& visit, const PassInputs& pass, Kernel qkv) const;

 private:
  QkvInputs inputs(const Visit& visit, const at::Tensor& values, const at::Tensor& first_v,
                   const PassInputs& pass) const;
  // The first `count` channels of queries, before norm and RoPE: computed, or, where the projection
  // has adapters, taken from `adapted` [B, T, q + k + v], its output.
  at::Tensor first_queries(const at::Tensor& n_btd, const Weight& qkv, const at::Tensor& adapted,
                           std::int64_t count) const;
  // Returns the inputs of the block's head gate; undefined if it has none. n as forward() takes it,
  // `adapted` as for choose_qkv(); n_gradient of `qkv`, the QKV projection.
  HeadGateInputs head_gate(const Visit& visit, const NormedInput& n_btd, const Weight& qkv,
                           const at::Tensor& adapted, const HeadGateGradientPtr& n_gradient,
                           const PassInputs& pass) const;
  at::Tensor attend(const Visit& visit, const Qkv& heads, const HeadGateInputs& gate,
                    const PassInputs& pass, const InputDotsPtr& y_dots) const;

  const Plan& plan_;
  const ParameterTable& table_;
  std::int64_t heads_, kv_heads_, head_dim_;
  const ComputeSizes padded_;
};

}  // namespace tg
