#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "ops/loss/softcap.h"

namespace tg {

// How far below the softcap's range the logit of a token is that a mask takes out of the softmax:
// beside any other its weight, at most e^−60, is nothing in fp32. Record 91 of the speedrun has −60
// below 23·σ, which begins at 0.
inline constexpr double kBelowSoftcap = 60;

// Returns −log softmax(s)[target] of each row [N] fp32 (fp64 for fp64), without a gradient, of
// softcapped logits s in [−cap, cap] that are −cap − kBelowSoftcap in the columns c for which bit
// c % 8, the lowest first, of mask[inputs[n], c / 8] is set (record 91 of the speedrun). A target
// that is masked itself has the loss log Σe^(s + cap) + 60. logits [N, at least vocab] of any
// dtype, inputs and targets [N] int64, mask [V, ⌈V / 8⌉] uint8, vocab up to V, 0: all columns. Does
// not change the logits.
at::Tensor masked_softcap_nll(const at::Tensor& logits_nv, const at::Tensor& inputs_n,
                              const at::Tensor& targets_n, const at::Tensor& mask,
                              const Softcap& softcap, std::int64_t vocab = 0);

}  // namespace tg
