#pragma once
#include <ATen/ATen.h>

#include <map>
#include <vector>

#include "config/settings.h"
#include "model/fp8_weights.h"
#include "model/numerics.h"
#include "model/padded_copy.h"
#include "model/plan.h"
#include "model/residual_coefficients.h"
#include "model/row_scales.h"
#include "ops/gemm/linear.h"

namespace tg {

// Copies of the large matrices in the compute dtype, at fixed addresses, cast once per step instead
// of in every micro-step. Gradients accumulate directly in the parameters' gradients, except those
// of Q, K and V, of padded copies and of a tied head, which accumulate in buffers;
// collect_gradients() completes the parameters' gradients. Parameters that require no gradient
// (inference) get none. With numerics.fp8, these matrices also have FP8 copies. cast() and
// collect_gradients() update the ResidualCoefficients, too.
class WeightCopies {
 public:
  WeightCopies(const Plan& plan, const ParameterTable& table, const Numerics& numerics);

  // QAT: whether cast() rounds to the quantizer's levels. Takes effect when cast() runs or is
  // captured; a replay of cast() repeats the captured work.
  void set_fake_quant(bool on) { fake_quant_ = on; }
  // Casts the parameters into the copies.
  void cast();
  // Adds the buffered gradients to the parameters', clears the buffers, and applies the row scales
  // to the gradients. Call it once, after the last backward pass; gradients must have been zero
  // before the first.
  void collect_gradients();
  // These copies as constants, for passes in `compute` that train no parameters. They share storage
  // with this object, whose cast() updates them; set_fake_quant() must be called on both.
  WeightCopies as_constants() const;

  // A small matrix that autograd follows, fake-quantized as cast() does; linear() casts it.
  at::Tensor small(const at::Tensor& parameter) const;
  // Weights of the layer call's block. `fp8`: with their FP8 copies.
  const BlockWeights& block(const LayerCall& call, bool fp8) const {
    return fp8 ? fp8_.block(call) : blocks_[static_cast<std::size_t>(call.block)];
  }
  // Coefficients of the residual stream.
  const ResidualCoefficients& stream() const { return stream_; }
  Fp8Scales& fp8_scales() { return fp8_.scales(); }
  void inherit_fp8_scales(const Pass& from, const Pass& to) { fp8_.inherit_scales(from, to); }
  Fp8Parts fp8_parts() const { return fp8_.parts(); }  // in FP8
  // The head [V, D]. Undefined if it is tied and autograd accumulates both gradients of the token
  // table: without supports_fused_head(). `fp8`: with its FP8 copy.
  const Weight& head(bool fp8) const { return fp8 ? fp8_.head() : head_; }
  // Buffer of a table's gradient, fp32, which lookups add theirs to: of the token table if the head
  // is tied, and of EmbeddingPlan::summed_in_fp32. Undefined if autograd computes it.
  at::Tensor table_gradient(ParameterId table) const {
    const auto found = table_gradients_.find(table.row);
    return found == table_gradients_.end() ? at::Tensor() : found->second;
  }
  const std::vector<Weight>& mtp_heads() const { return mtp_heads_; }

 private:
  // Kinds that QAT distinguishes: it never rounds the token table.
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
  void sum_in_fp32(ParameterId id, const at::Tensor& table, const ComputeSizes& sizes);
  Weight make_tied_head(const at::Tensor& table, const ComputeSizes& sizes, const Softcap& softcap);
  at::Tensor fake_quantized(const at::Tensor& parameter, Kind kind) const;

  const Numerics numerics_;
  bool fake_quant_ = false;
  std::vector<Copy> copies_;
  // Pairs of slices: of a parameter's gradient, and of the gradient buffer that is added to it.
  Slices gradient_slices_;
  std::vector<at::Tensor> gradient_buffers_;
  Slices table_sums_;  // pairs of a table's gradient and of its fp32 buffer
  std::vector<BlockWeights> blocks_;
  Weight head_;
  std::map<std::int64_t, at::Tensor> table_gradients_;  // by row of the parameter table
  std::vector<Weight> mtp_heads_;
  ResidualCoefficients stream_;
  Fp8Weights fp8_;
};

}  // namespace tg
