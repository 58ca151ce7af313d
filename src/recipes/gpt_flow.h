#pragma once
#include "model/plan.h"
#include "ops/gemm/normed_input.h"

namespace tg {

// Forward pass of three recipes, a Flow. A layer call computes
//   h = m0·(x + w·skip) + m1·x0, or with gates as in LayerCall::Skip
//   h += attention(rms(h)·s),  h += mlp(rms(h)·s)
// With an update gate, the update of each token is scaled: x_in + σ(gate(x_in))·(h − x_in), where
// x_in is h after the first line. With two lanes, see LaneMix: attention reads h, the MLP lane 1.
NormedInput gpt_flow(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                     const at::Tensor& ids_bt, const at::Tensor& x0_btd);

}  // namespace tg
