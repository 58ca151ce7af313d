#pragma once
#include <ATen/ATen.h>

#include <memory>

namespace tg {

// Gradients that backward passes of one attention layer pass to each other outside autograd, which
// would write and add them as tensors of all heads. The operation whose backward pass takes a
// gradient says so in its forward pass; the one that computes it then returns none to autograd.
struct PassedGradients {
  // dQ from attention to the heads' norm, of q or of paired_heads(q): the fp32 accumulator [B,
  // heads, padded length, hd] (query_sum.cuh), which the norm's kernel rounds as it reads it.
  bool takes_q = false;
  at::Tensor q_sum{};
  // From the head gate's kernel to the QKV projection, which has the same input x and adds it in
  // place: the gradient of the channels that the gate reads, [B·T, w] fp32, multiplied by the row
  // scale if x has one.
  bool takes_gate_x = false;
  at::Tensor gate_x{};
  // FlashAttention's delta = rowsum(dO ∘ O) (FlashAttention-2, Dao 2023), from the operation that
  // reads O and computes dO, the output projection or weighted_heads(), to attention: [heads·parts,
  // rows] fp32, each over a head's channels or one of its equal parts.
  bool takes_delta = false;
  at::Tensor delta{};
};
// Null: autograd passes all gradients.
using PassedGradientsPtr = std::shared_ptr<PassedGradients>;

}  // namespace tg
