#pragma once
#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "model/fp8_scales.h"
#include "model/numerics.h"
#include "model/plan.h"
#include "ops/gemm/linear.h"

namespace tg {

// The matrices of one block, or banks of those that blocks have: qkv [(heads + 2·KV)·hd, D],
// concatenated for one GEMM, with the values' rows times their weight in a value residual; out [D,
// heads·hd] with its rows times attn_scale, up [H, D], down [D, H] with its rows times mlp_scale.
// All sizes are compute_sizes().
struct BlockWeights {
  Weight qkv, out, up, down;

  // A block's, of banks [matrices, …]; undefined what it does not have.
  BlockWeights of_block(const MatricesPlan& matrices, std::int64_t block) const;
  BlockWeights frozen() const { return {qkv.frozen(), out.frozen(), up.frozen(), down.frozen()}; }
};

// Operands of passes that ask for FP8: the matrices in the compute dtype, and in FP8 those that
// numerics.fp8 names. A weight is rounded once for all calls of its block; activations have a scale
// per call. There are scales for all calls' GEMMs and for a head that is untied or large enough for
// FP8, whether in FP8 or not, since a run may resume on another GPU.
class Fp8Weights {
 public:
  // The head's logits.
  struct Logits {
    std::int64_t columns;
    double softcap;
  };

  Fp8Weights() = default;
  // `banks`: of all blocks; `head`: WeightCopies::head()'s, without FP8.
  Fp8Weights(const Plan& plan, const Numerics& numerics, const BlockWeights& banks,
             const Weight& head, const Logits& logits);

  // Rounds what the matrices are now.
  void round();
  const BlockWeights& of(const Visit& visit) const {
    return visits_[static_cast<std::size_t>(visit.index)];
  }
  const Weight& head() const { return head_; }
  Fp8Scales& scales() { return scales_; }
  // Gpt::inherit_fp8_scales().
  void inherit_scales(const Pass& from, const Pass& to);
  Fp8Parts parts() const { return parts_; }  // that are in FP8

 private:
  void add_matrices(const Plan& plan, const BlockWeights& banks, const Fp8Parts& wanted);
  void guess_head_scales(std::int64_t product, std::int64_t tokens, const Logits& logits);
  void add_head(std::int64_t product);

  std::vector<BlockWeights> visits_;
  Weight head_;
  Fp8Scales scales_;
  Fp8Parts parts_;
  std::vector<std::pair<at::Tensor, Fp8Weight>> banks_;  // what is rounded, and to what
};

}  // namespace tg
