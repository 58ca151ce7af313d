#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "config/settings.h"
#include "model/parameters.h"
#include "ops/gemm/linear.h"

namespace tg {

// How to compute, apart from what.
struct Numerics {
  at::ScalarType compute = at::kFloat;  // of activations and GEMMs
  bool record_quirks = false;           // the scripts' rounding of RoPE frequencies and their QAT
};

// The matrices of one layer: qkv [D + 2·KV·hd, D], concatenated for one GEMM; out [D, D], up [H,
// D], down [D, H].
struct LayerWeights {
  Weight qkv, out, up, down;
};

// Copies of the large matrices in the compute dtype, cast once per step rather than in every
// micro-step, at addresses that do not change. Their gradients accumulate in the parameters' own
// gradients; those of Q, K and V in one buffer until collect_gradients().
class WeightCopies {
 public:
  WeightCopies(const ModelConfig& config, const ParameterTable& table, const Numerics& numerics);

  // QAT: whether cast() rounds as the quantiser will. Apart from cast(), since a replay of that
  // repeats only its work on the device.
  void set_fake_quant(bool on) { fake_quant_ = on; }
  // Casts the parameters into the copies.
  void cast();
  void collect_gradients();

  // A small matrix under autograd, in the compute dtype, rounded as by the last cast().
  at::Tensor small(const at::Tensor& parameter) const;
  const LayerWeights& layer(std::int64_t i) const { return layers_[static_cast<std::size_t>(i)]; }
  // The untied head [V, D]; its value is undefined where the token table serves.
  const Weight& head() const { return head_; }
  const std::vector<Weight>& mtp_heads() const { return mtp_heads_; }

 private:
  // A parameter, or some matrices of a bank, and its copy, of the same shape.
  struct Copy {
    at::Tensor parameter, value;
    bool is_bank;
  };
  Weight copied(const at::Tensor& parameter);
  at::Tensor rounded(const at::Tensor& parameter, bool is_bank) const;

  Numerics numerics_;
  bool fake_quant_ = false;
  std::vector<Copy> copies_;
  // Slices of qkv_gradient_, and the slices of the banks' gradients that they are added to.
  std::vector<std::pair<at::Tensor, at::Tensor>> moves_;
  at::Tensor qkv_gradient_;
  std::vector<LayerWeights> layers_;
  Weight head_;
  std::vector<Weight> mtp_heads_;
};

}  // namespace tg
