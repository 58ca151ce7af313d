#pragma once
// The rows of op_bench, grouped by what bounds their operations.
#include <ATen/ATen.h>

#include <cstdint>

#include "op_timer.h"

namespace tg {

// Shapes of a micro-step.
struct Recipe {
  const char* name;
  std::int64_t batch, seq_len, dim, heads, kv_heads, rope_dims, layers, hidden, vocab;
  double slope;
  bool value_blend;  // if true: no bigram, smear, gains or scales
};
// Makes random inputs; all except ids require a gradient.
struct Inputs {
  at::TensorOptions options;
  at::ScalarType dtype() const { return options.dtype().toScalarType(); }
  at::Device device() const { return options.device(); }
  at::Tensor operator()(at::IntArrayRef shape) const {
    return at::randn(shape, options).requires_grad_();
  }
  at::Tensor fp32(at::IntArrayRef shape) const {
    return at::randn(shape, options.dtype(at::kFloat)).requires_grad_();
  }
  // Ids with the frequencies of synthetic:zipf, about 1 / (id + 3).
  at::Tensor ids(at::IntArrayRef shape, std::int64_t count) const {
    const auto uniform = at::rand(shape, options.dtype(at::kFloat));
    const double last = static_cast<double>(count + 3) / 3;
    return (3 * at::pow(last, uniform) - 3).to(at::kLong).clamp_(0, count - 1);
  }
};

// Embedding, norms, RoPE, exclusive attention, activation and loss. Inputs that a recipe lacks are
// undefined.
void memory_bound_rows(OpTimer& timer, const Recipe& r, const Inputs& make);
// The GEMMs, and the operations that contain one.
void gemm_rows(OpTimer& timer, const Recipe& r, const Inputs& make);
void attention_rows(OpTimer& timer, const Recipe& r, const Inputs& make);
// Of record 89's last layer: 6 heads of 128 and a window of 112 in documents of about 500 tokens.
void composed_attention_rows(OpTimer& timer, const Inputs& make, std::int64_t tokens);
// Kernels of record 89's attention layers, of one row of `tokens`.
void speedrun_89_rows(OpTimer& timer, const Inputs& make, std::int64_t tokens);
void muon_rows(OpTimer& timer, const Recipe& r, const Inputs& make);
// Heads of kMinFusedColumns columns: without a pass over the logits, and with
// softcap_cross_entropy's pass.
void head_rows(OpTimer& timer, const Inputs& make, std::int64_t tokens, std::int64_t columns);

}  // namespace tg
