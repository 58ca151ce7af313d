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

// Adapters of one pass, cast once to the compute dtype and scaled like the weight copy of the
// matrix beside them. GEMMs are in the compute dtype; x and y have the widths of ComputeSizes, the
// adapters the model's own.
class LoraPass {
 public:
  // Adapters for the layer calls of `stage`: the last `rows` rows of the adapters, for a batch of
  // `rows` rows. grad_scale: loss scale of the gradients, by which the adapters' gradients are
  // divided (BatchedWeight). All arguments but `adapters` must outlive it.
  LoraPass(const LoraAdapters& adapters, std::int64_t rows, const Pass& stage, const Plan& plan,
           const ParameterTable& table, const ComputeSizes& sizes, at::ScalarType compute,
           double grad_scale);

  // n·Aᵀ of attention's input n [B, T, D]: [B, T, rank] for each adapter.
  using Inner = std::vector<at::Tensor>;
  Inner attention(const LayerCall& call, const NormedInput& n_btd) const;
  // The add_ functions add adapter outputs to y and return it; y is overwritten, see
  // add_batched_linear().
  // add_qkv: y is the QKV projection [B, T, (heads + 2·KV)·hd].
  at::Tensor add_qkv(const LayerCall& call, const at::Tensor& y, const Inner& inner) const;
  // add_out: y is the output projection's result [B, T, D], or its residual input; returned as it
  // is if there is no such adapter.
  bool adapts_out(const LayerCall& call) const;
  at::Tensor add_out(const LayerCall& call, const at::Tensor& y, const Inner& inner) const;
  // add_mlp: y is the MLP's output for x, both [B, T, D].
  at::Tensor add_mlp(const LayerCall& call, const at::Tensor& y, const NormedInput& x_btd) const;
  // add_head: y is the logits [B, T, V] for the states x [B, T, D].
  at::Tensor add_head(const at::Tensor& y, const NormedInput& x_btd) const;

 private:
  struct Group {
    BatchedWeight a;
    std::vector<LoraKind> kinds;
    std::vector<BatchedWeight> b;
  };
  struct CallGroups {
    Group attention, mlp;
  };
  // Position of Q, K or V in a row [B, T, (heads + 2·KV)·hd]: `count` heads from head `first` on,
  // each padded by `runs`.
  struct HeadsLayout {
    std::int64_t first, count;
    const std::vector<ChannelRun>& runs;
  };
  HeadsLayout heads_of(LoraKind kind) const;
  at::Tensor add_heads(const at::Tensor& y, const HeadsLayout& layout, const at::Tensor& inner,
                       const BatchedWeight& b) const;
  at::Tensor multiply_a(const Group& group, const NormedInput& x_btd) const;
  const CallGroups& groups(const LayerCall& call) const {
    return calls_[static_cast<std::size_t>(call.index)];
  }

  const ModelShape& shape_;
  const ComputeSizes& sizes_;
  double scale_;
  std::int64_t rank_;
  Group head_;
  std::vector<CallGroups> calls_;  // by layer call index
};

}  // namespace tg
