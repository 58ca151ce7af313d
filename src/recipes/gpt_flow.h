#pragma once
#include "model/plan.h"
#include "ops/gemm/normed_input.h"

namespace tg {

// How a pass of the three recipes flows, a Flow. A visit of a block:
//   h = m0·(x + w·skip) + m1·x0, the skip with gates as Visit::Skip says
//   h += attention(rms(h)·s),  h += mlp(rms(h)·s)
// With an update gate each token's update is scaled: x_in + σ(gate(x_in))·(h − x_in), where x_in is
// the first line's h. With two lanes as LaneMix says, of h for attention and lane 1 for the MLP.
NormedInput gpt_flow(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                     const at::Tensor& ids_bt, const at::Tensor& x0_btd);

}  // namespace tg
