#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>

#include "ops/attention/documents.h"

namespace tg {

// How a query's heads share their attention.
struct HeadComposition {
  at::Tensor pre, post;  // w1 and w2, [B, S, heads]
  double scale;          // of q·k
  std::int64_t window;   // keys that a query sees, its own included
  std::optional<Documents> documents{};
};

// The term that dynamically composable attention (Xiao et al. 2024) over a window adds to
// attention's output:
//   y_h(t) = w2_h(t)·Σ_s (Σ_g w1_g(t)/√(mean_g w1_g(t)² + 1e-6)·P_g(t, s))·v_h(s)
// where P_g(t, ·) is the softmax of scale·q_g·k_g over the last `window` keys of t's document. The
// queries are those of the last S ≤ T positions; with documents S is T. q [B, S, heads, hd], k and
// v [B, T, heads, hd] → [B, S, heads, hd]. Differentiable in q, k, v, w1 and w2. Softmax and
// weights are in fp32 (fp64 for fp64). On a GPU in bf16 or fp16, with S = T, heads of 64 or 128 and
// a window of at most 128, kernels keep the scores in registers, with deterministic gradients; else
// the memory holds scores of twice the window for each query and head.
at::Tensor composed_attention(const at::Tensor& q_bshd, const at::Tensor& k_bthd,
                              const at::Tensor& v_bthd, const HeadComposition& composition);

}  // namespace tg
