#pragma once
// Inputs of all layers of a pass.
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "model/inference.h"
#include "model/lora_pass.h"
#include "model/plan.h"
#include "ops/attention/documents.h"
#include "ops/attention/projection/rope.h"
#include "ops/embedding/embedding_lookup.h"
#include "ops/gemm/normed_input.h"

namespace tg {

// The GEMM inputs of a pass: of QKV, the output projection, W_up and W_down of a layer call, and of
// the head.
enum class Operand { qkv, out, up, down, head };

// Called with each GEMM input of a pass, [B, T, channels] in the compute dtype, padded as
// ComputeSizes, when it has been computed; `block`: index of the matrices' block, -1 for the head.
using OperandObserver =
    std::function<void(Operand operand, std::int64_t block, const at::Tensor& rows)>;

struct PassInputs {
  RopeTable rope{};         // at the inputs' positions
  RopeTable paired_rope{};  // of paired heads; undefined if no layer call of the pass has them
  // Order of the ids, in which every table that is looked up with them sums its gradient.
  std::shared_ptr<IdOrder> id_order{};
  at::Tensor q_gain{};  // [heads] fp32, a constant of all layer calls; undefined: the blocks' own
  bool fp8 = false;     // run the GEMMs that support it in FP8
  // The scored positions, if not all: the last layer call's queries, attention output and MLP
  // compute only these. Never in passes with gradients.
  std::optional<Positions> only{};
  DecodeCache* cache = nullptr;  // of the preceding tokens; null: there are none
  // Documents of the inputs: attention does not cross them. Not with `only` or `cache`.
  std::optional<Documents> documents{};
  // Optional hook, called with the GEMM inputs at all positions; the pass must be in `compute` and
  // without gradients. Forces materialized GEMM inputs.
  const OperandObserver* observer = nullptr;
  // Adapters, at all positions and in `compute`; null: none. Not with `only`, `cache` or
  // `observer`.
  std::shared_ptr<const LoraPass> loras{};

  const RopeTable& rope_of(const LayerCall& call) const { return call.paired ? paired_rope : rope; }
  // `rows`: a tensor or a NormedInput.
  template <class Rows>
  void observe(Operand operand, std::int64_t block, const Rows& rows) const {
    if (observer != nullptr) (*observer)(operand, block, NormedInput(rows).rows());
  }
  std::optional<Positions> scored(const LayerCall& call) const {
    return call.last ? only : std::nullopt;
  }
  // The scored rows of x [B, T, …].
  at::Tensor scored_rows(const at::Tensor& x, const LayerCall& call) const {
    const auto positions = scored(call);
    return positions ? x.narrow(1, positions->from, positions->count()) : x;
  }
};

}  // namespace tg
