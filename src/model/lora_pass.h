#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "config/settings.h"
#include "model/lora.h"
#include "model/padding.h"
#include "model/plan.h"
#include "ops/gemm/batched_linear.h"
#include "ops/gemm/normed_input.h"

namespace tg {

// Adapters as one pass of a model reads them: cast once to its compute dtype; an adapter beside a
// block's scaled matrix has that scale, as the matrix's copy has. Outputs are in the compute dtype;
// x and y have the widths of ComputeSizes, the adapters the model's own.
class LoraPass {
 public:
  // For `stage`'s calls and the last `rows` rows of the adapters, for a batch of that many rows.
  // grad_scale: the factor on the losses' gradients, by which the adapters' gradients are divided
  // (BatchedWeight). Everything must outlive it but `adapters`.
  LoraPass(const LoraAdapters& adapters, std::int64_t rows, const Pass& stage, const Plan& plan,
           const ParameterTable& table, const ComputeSizes& sizes, at::ScalarType compute,
           double grad_scale);

  // What A makes of attention's input n [B, T, D], [B, T, rank] of each of its adapters.
  using Inner = std::vector<at::Tensor>;
  Inner attention(const Visit& visit, const NormedInput& n_btd) const;
  // Each adds to a GEMM's output in place, as add_batched_linear() does, and returns it. To the QKV
  // projection [B, T, (heads + 2·KV)·hd]:
  at::Tensor add_qkv(const Visit& visit, const at::Tensor& y, const Inner& inner) const;
  // to what the output projection adds to [B, T, D], where it has an adapter:
  bool adapts_out(const Visit& visit) const;
  at::Tensor add_out(const Visit& visit, const at::Tensor& y, const Inner& inner) const;
  // to the MLP's output of x, both [B, T, D]:
  at::Tensor add_mlp(const Visit& visit, const at::Tensor& y, const NormedInput& x_btd) const;
  // to the logits of the states x [B, T, D], [B, T, V]:
  at::Tensor add_head(const at::Tensor& y, const NormedInput& x_btd) const;

 private:
  struct Group {
    BatchedWeight a;
    std::vector<LoraKind> kinds;
    std::vector<BatchedWeight> b;
  };
  struct VisitGroups {
    Group attention, mlp;
  };
  // Layout of a GEMM's heads, each by `runs`, in a row [B, T, (heads + 2·KV)·hd] at `first_head`.
  struct HeadsLayout {
    std::int64_t first, count;
    const std::vector<ChannelRun>& runs;
  };
  HeadsLayout heads_of(LoraKind kind) const;
  at::Tensor add_heads(const at::Tensor& y, const HeadsLayout& at, const at::Tensor& inner,
                       const BatchedWeight& b) const;
  at::Tensor multiply_a(const Group& group, const NormedInput& x_btd) const;
  const VisitGroups& of(const Visit& visit) const {
    return visits_[static_cast<std::size_t>(visit.index)];
  }

  const ModelShape& shape_;
  const ComputeSizes& sizes_;
  double scale_;
  std::int64_t rank_;
  Group head_;
  std::vector<VisitGroups> visits_;  // by index
};

}  // namespace tg
