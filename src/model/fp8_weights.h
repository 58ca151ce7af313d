#pragma once
#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "model/fp8_scales.h"
#include "model/numerics.h"
#include "model/plan.h"
#include "ops/gemm/linear.h"

namespace tg {

// The matrices of one block, or banks [matrices, …] of them: qkv [(heads + 2·KV)·hd, D],
// concatenated for one GEMM, the value rows scaled by their weight in a value residual; out [D,
// heads·hd] with rows scaled by attn_scale, up [H, D], down [D, H] with rows scaled by mlp_scale.
// All sizes are compute_sizes().
struct BlockWeights {
  Weight qkv, out, up, down;

  // The matrices of one block, sliced from banks [matrices, …]; undefined where the block has none.
  BlockWeights of_block(const MatricesPlan& matrices, std::int64_t block) const;
  BlockWeights as_constants() const {
    return {qkv.as_constants(), out.as_constants(), up.as_constants(), down.as_constants()};
  }
};

// The weights of passes with FP8: the matrices in the compute dtype and FP8 copies of those that
// numerics.fp8 names. A weight has one FP8 copy for all layer calls of its block; activations and
// gradients have scales per layer call. Scales exist for the GEMMs of all layer calls, and for a
// head that is untied or large enough for FP8, whether they are in FP8 or not: a run may resume on
// another GPU.
class Fp8Weights {
 public:
  // Size and softcap of the head's logits.
  struct Logits {
    std::int64_t columns;
    Softcap softcap;
  };

  Fp8Weights() = default;
  // `banks`: the matrices of all blocks; `head`: WeightCopies::head() without FP8.
  Fp8Weights(const Plan& plan, const Numerics& numerics, const BlockWeights& banks,
             const Weight& head, const Logits& logits);

  // Quantizes the current values of the matrices.
  void round();
  const BlockWeights& block(const LayerCall& call) const {
    return calls_[static_cast<std::size_t>(call.index)];
  }
  const Weight& head() const { return head_; }
  Fp8Scales& scales() { return scales_; }
  // See Gpt::inherit_fp8_scales().
  void inherit_scales(const Pass& from, const Pass& to);
  Fp8Parts parts() const { return parts_; }  // in FP8

 private:
  void add_matrices(const Plan& plan, const BlockWeights& banks, const Fp8Parts& enabled);
  void guess_head_scales(std::int64_t gemm, std::int64_t tokens, const Logits& logits);
  void add_head(std::int64_t gemm);

  std::vector<BlockWeights> calls_;
  Weight head_;
  Fp8Scales scales_;
  Fp8Parts parts_;
  std::vector<std::pair<at::Tensor, Fp8Weight>> banks_;  // source and FP8 copy
};

}  // namespace tg
