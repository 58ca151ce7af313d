#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "config/settings.h"
#include "model/fp8_scales.h"
#include "model/padding.h"
#include "model/plan.h"
#include "ops/gemm/linear.h"

namespace tg {

// How the passes compute.
struct Numerics {
  at::ScalarType compute = at::kFloat;  // of activations and GEMMs
  bool record_quirks = false;  // RoPE frequencies and QAT round as in the reference implementation
  Padding padding{};
  // Which activations backward computes again.
  ActivationRecompute recompute = ActivationRecompute::off;
  Fp8Parts fp8{};                // products that training passes compute in FP8
  bool has_fp8 = false;          // else they do so in `compute`, and the scales stay as they are
  std::int64_t step_tokens = 1;  // that a training step's loss is the mean of; for FP8
};

// The matrices of one block: qkv [(heads + 2·KV)·hd, D], concatenated for one GEMM, with the
// values' rows times their weight in a value residual; out [D, heads·hd] with its rows times
// attn_scale, up [H, D], down [D, H] with its rows times mlp_scale. All sizes are compute_sizes().
struct BlockWeights {
  Weight qkv, out, up, down;
};

// A parameter, or some matrices of a bank, and its gradient.
struct WeightSource {
  at::Tensor value, gradient;
};
// Of the matrices of a bank: offset + factor·parameter, of [rows] or [1] each; none where empty.
// A source without a gradient is a constant.
struct RowScales {
  std::vector<WeightSource> parameters{};
  double offset = 0, factor = 1;

  at::Tensor columns() const;  // [matrices, rows or 1, 1]
};

// Copies of the large matrices in the compute dtype, cast once per step rather than in every
// micro-step, at addresses that do not change. Their gradients accumulate in the parameters' own
// gradients, from which collect_gradients() makes the parameters' own; those of Q, K and V, and of
// padded copies, in buffers until then. Parameters that require no gradient, as for inference, get
// none. With numerics.fp8, these
// matrices are copied in FP8 as well, for training passes.
class WeightCopies {
 public:
  WeightCopies(const ModelConfig& config, const Plan& plan, const ParameterTable& table,
               const Numerics& numerics);

  // QAT: whether cast() rounds to the quantiser's levels. It takes effect when cast() runs or is
  // captured; a replay of cast() repeats the captured work.
  void set_fake_quant(bool on) { fake_quant_ = on; }
  // Casts the parameters into the copies.
  void cast();
  // Adds the buffered gradients to the parameters' and clears the buffers. Of W' = s ⊙ W with
  // scales s of its rows: dW = s ⊙ dW' and ds = Σ dW' ⊙ W over a row. Once after the last backward
  // pass of gradients that were zero before the first.
  void collect_gradients();

  // A small matrix under autograd, which linear() casts, rounded as cast() rounds.
  at::Tensor small(const at::Tensor& parameter) const;
  // Of the visit's block. `training`: with the copies in FP8 that there are.
  const BlockWeights& of(const Visit& visit, bool training) const {
    return training ? training_visits_[static_cast<std::size_t>(visit.index)]
                    : blocks_[static_cast<std::size_t>(visit.block)];
  }
  Fp8Scales& fp8_scales() { return fp8_scales_; }
  Fp8Parts fp8_parts() const;  // that training passes compute in FP8
  // The untied head [V, D]; undefined with tied embeddings. `training` as of()'s.
  const Weight& head(bool training) const { return training ? training_head_ : head_; }
  const std::vector<Weight>& mtp_heads() const { return mtp_heads_; }

 private:
  // Where a matrix [..., rows, columns] is in its padded copy: at the beginning of every dimension;
  // of dimension `dim`, if `heads` is not 0, each head by these runs.
  struct Placement {
    std::int64_t dim = 0, heads = 0;
    std::vector<ChannelRun> runs{};
  };
  struct Copy {
    WeightSource source;
    at::Tensor value;
    Placement placement;
    bool is_bank;
    RowScales scales;
  };
  using Slices = std::vector<std::pair<at::Tensor, at::Tensor>>;
  // The same elements of both, as views.
  static Slices placed(const at::Tensor& whole, const at::Tensor& padded, const Placement& at);

  Weight make_copy(const WeightSource& source, at::IntArrayRef sizes, const Placement& placement,
                   bool is_bank, const RowScales& scales = {});
  void copy_into(const Weight& target, const WeightSource& source, const Placement& placement,
                 bool is_bank, const RowScales& scales = {});
  Weight make_qkv(const ModelConfig& config, const Plan& plan, const ParameterTable& table,
                  const ComputeSizes& sizes);
  // Copies in FP8 for training passes the matrices of all blocks, `banks`, and the head's. The
  // scales have places for all visits' products and an untied head's, in FP8 or not: a run may
  // resume on another GPU.
  void make_fp8(const BlockWeights& banks, const Plan& plan, double logit_softcap);
  void guess_head_scales(std::int64_t product, double logit_softcap);
  void make_fp8_head(std::int64_t product);
  Weight make_head(const at::Tensor& parameter, const ComputeSizes& sizes);
  at::Tensor rounded(const at::Tensor& parameter, bool is_bank) const;
  // From the gradient of a scaled copy to those of the parameter and of its scales.
  void unscale_gradient(const Copy& copy);

  Numerics numerics_;
  bool fake_quant_ = false;
  std::vector<Copy> copies_;
  // Slices of the parameters' gradients, and of gradient_buffers_, which are added to them.
  Slices gradient_slices_;
  std::vector<at::Tensor> gradient_buffers_;
  std::vector<std::pair<at::Tensor, Fp8Weight>> fp8_banks_;  // what is rounded, and to what
  Fp8Scales fp8_scales_;
  std::vector<BlockWeights> blocks_, training_visits_;
  Weight head_, training_head_;
  std::vector<Weight> mtp_heads_;
};

}  // namespace tg
