#pragma once
#include "ops/fused.h"
#include "ops/gemm/normed_input.h"

namespace tg {

// What computes a visit of a block, and the forms in which its norms pass their rows to that.
struct VisitKernels {
  Kernel qkv{}, out{}, mlp{};
  NormedForm attention_input{}, mlp_input{};
};

}  // namespace tg
