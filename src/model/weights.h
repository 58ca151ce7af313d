#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "config/settings.h"
#include "model/parameters.h"
#include "ops/gemm/linear.h"

namespace tg {

// How the passes compute.
struct Numerics {
  at::ScalarType compute = at::kFloat;  // of activations and GEMMs
  bool record_quirks = false;  // RoPE frequencies and QAT round as in the reference implementation
  ActivationRecompute recompute =
      ActivationRecompute::off;  // which activations backward recomputes
};

// The matrices of one layer: qkv [D + 2·KV·hd, D], concatenated for one GEMM; out [D, D], up [H,
// D], down [D, H].
struct LayerWeights {
  Weight qkv, out, up, down;
};

// Copies of the large matrices in the compute dtype, cast once per step rather than in every
// micro-step, at addresses that do not change. Their gradients accumulate in the parameters' own
// gradients; those of Q, K and V in one buffer until collect_gradients(). Parameters that require
// no gradient, as for inference, get none.
class WeightCopies {
 public:
  WeightCopies(const ModelConfig& config, const ParameterTable& table, const Numerics& numerics);

  // QAT: whether cast() rounds to the quantiser's levels. It takes effect when cast() runs or is
  // captured; a replay of cast() repeats the captured work.
  void set_fake_quant(bool on) { fake_quant_ = on; }
  // Casts the parameters into the copies.
  void cast();
  // Adds the buffered gradients of Q, K and V to the banks' and clears the buffer.
  void collect_gradients();

  // A small matrix in the compute dtype, under autograd, rounded as cast() rounds.
  at::Tensor small(const at::Tensor& parameter) const;
  const LayerWeights& layer(std::int64_t i) const { return layers_[static_cast<std::size_t>(i)]; }
  // The untied head [V, D]; undefined with tied embeddings.
  const Weight& head() const { return head_; }
  const std::vector<Weight>& mtp_heads() const { return mtp_heads_; }

 private:
  // A parameter, or some matrices of a bank, and its copy of the same shape.
  struct Copy {
    at::Tensor parameter, value;
    bool is_bank;
  };
  Weight make_copy(const at::Tensor& parameter);
  at::Tensor rounded(const at::Tensor& parameter, bool is_bank) const;

  Numerics numerics_;
  bool fake_quant_ = false;
  std::vector<Copy> copies_;
  // Slices of qkv_gradient_ and the slices of the banks' gradients that they are added to.
  std::vector<std::pair<at::Tensor, at::Tensor>> gradient_slices_;
  at::Tensor qkv_gradient_;
  std::vector<LayerWeights> layers_;
  Weight head_;
  std::vector<Weight> mtp_heads_;
};

}  // namespace tg
