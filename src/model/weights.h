#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "config/settings.h"
#include "model/fp8_weights.h"
#include "model/numerics.h"
#include "model/padded_copy.h"
#include "model/plan.h"
#include "model/row_scales.h"
#include "model/stream_weights.h"
#include "ops/gemm/linear.h"

namespace tg {

// Copies of the large matrices in the compute dtype, cast once a step, at fixed addresses. Their
// gradients accumulate in the parameters' gradients, from which collect_gradients() makes the
// parameters' own; gradients of Q, K and V, of padded copies and of a token table that is the head
// accumulate in buffers. Parameters that require no gradient, as for inference, get none. With
// numerics.fp8 the matrices are copied in FP8 as well. The coefficients of the residual stream
// (StreamWeights) are made at the same time.
class WeightCopies {
 public:
  WeightCopies(const Plan& plan, const ParameterTable& table, const Numerics& numerics);

  // QAT: whether cast() rounds to the quantiser's levels. It takes effect when cast() runs or is
  // captured; a replay of cast() repeats the captured work.
  void set_fake_quant(bool on) { fake_quant_ = on; }
  // Casts the parameters into the copies.
  void cast();
  // Adds the buffered gradients to the parameters', clears the buffers, and unscales the rows. Call
  // it once after the last backward pass of gradients that were zero before the first.
  void collect_gradients();
  // These copies as constants, for passes in `compute` that train none of the parameters. cast() of
  // the copies that they are of casts them as well; set_fake_quant() they need themselves.
  WeightCopies frozen() const;

  // A small matrix under autograd, which linear() casts, rounded as cast() rounds.
  at::Tensor small(const at::Tensor& parameter) const;
  // Weights of the call's block. `fp8`: with the FP8 copies that exist.
  const BlockWeights& of(const Visit& visit, bool fp8) const {
    return fp8 ? fp8_.of(visit) : blocks_[static_cast<std::size_t>(visit.block)];
  }
  // What the stream is multiplied by.
  const StreamWeights& stream() const { return stream_; }
  Fp8Scales& fp8_scales() { return fp8_.scales(); }
  void inherit_fp8_scales(const Pass& from, const Pass& to) { fp8_.inherit_scales(from, to); }
  Fp8Parts fp8_parts() const { return fp8_.parts(); }  // that are in FP8
  // The head [V, D]. Undefined where it is the token table and autograd adds up what both uses of
  // that contribute: without supports_fused_head(). `fp8` as of()'s.
  const Weight& head(bool fp8) const { return fp8 ? fp8_.head() : head_; }
  // Where the lookup's gradient is added to that head's, fp32; undefined: autograd has both, or the
  // head has its own weight.
  const at::Tensor& table_gradient() const { return table_gradient_; }
  const std::vector<Weight>& mtp_heads() const { return mtp_heads_; }

 private:
  // What QAT tells apart: it never rounds the token table.
  enum class Kind { bank, matrix, table };
  struct Copy {
    WeightSource source;
    at::Tensor value;
    CopyLayout placement;
    Kind kind;
    RowScales scales;
  };

  Weight make_copy(const WeightSource& source, at::IntArrayRef sizes, const CopyLayout& placement,
                   Kind kind, const RowScales& scales = {});
  void copy_into(const Weight& target, const WeightSource& source, const CopyLayout& placement,
                 Kind kind, const RowScales& scales = {});
  Weight make_qkv(const Plan& plan, const ParameterTable& table, const ComputeSizes& sizes);
  Weight make_head(const at::Tensor& parameter, const ComputeSizes& sizes);
  Weight make_tied_head(const at::Tensor& table, const ComputeSizes& sizes, double logit_softcap);
  at::Tensor fake_quantized(const at::Tensor& parameter, Kind kind) const;

  const Numerics numerics_;
  bool fake_quant_ = false;
  std::vector<Copy> copies_;
  // Slices of the parameters' gradients, and of gradient_buffers_, which are added to them.
  Slices gradient_slices_;
  std::vector<at::Tensor> gradient_buffers_;
  std::vector<BlockWeights> blocks_;
  Weight head_;
  at::Tensor table_gradient_;
  std::vector<Weight> mtp_heads_;
  StreamWeights stream_;
  Fp8Weights fp8_;
};

}  // namespace tg
