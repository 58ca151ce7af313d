#pragma once
#include "model/plan.h"
#include "ops/gemm/normed_input.h"

namespace tg {

// Flow of three recipes' passes. A layer call computes:
//   h = m0·(x + w·skip) + m1·x0, with gates on the skip as Visit::Skip says
//   h += attention(rms(h)·s),  h += mlp(rms(h)·s)
// With an update gate each token's update is scaled: x_in + σ(gate(x_in))·(h − x_in), where x_in is
// the first line's h. With two lanes as LaneMix says: attention reads h, the MLP lane 1.
NormedInput gpt_flow(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                     const at::Tensor& ids_bt, const at::Tensor& x0_btd);

}  // namespace tg
