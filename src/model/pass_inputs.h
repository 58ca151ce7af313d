#pragma once
// What all layers of a pass read.
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "model/inference.h"
#include "model/lora_pass.h"
#include "model/plan.h"
#include "ops/attention/documents.h"
#include "ops/attention/rope.h"
#include "ops/gemm/normed_input.h"

namespace tg {

// GEMM weights of a pass: per layer call Q, K and V together, the output projection, W_up and
// W_down, and for the whole pass the head.
enum class Operand { qkv, out, up, down, head };

// Is called with each operand of a pass, [B, T, channels] in the compute dtype and with the padding
// of ComputeSizes, once it is computed; `block`: whose matrices these are, of the head -1.
using OperandObserver =
    std::function<void(Operand operand, std::int64_t block, const at::Tensor& rows)>;

struct PassInputs {
  RopeTable rope{};     // of the inputs' positions
  at::Tensor q_gain{};  // [heads] fp32, constant over all calls; undefined: the blocks' own
  bool fp8 = false;     // use the FP8 copies that exist
  // Scored positions, if not all: the last call's queries, attention output and MLP compute these
  // alone. Never in passes with gradients.
  std::optional<Positions> only{};
  DecodeCache* cache = nullptr;  // of the tokens before the pass's own; null: there are none
  // Documents of the inputs: attention sees its own document alone. Excludes `only` and `cache`.
  std::optional<Documents> documents{};
  // Observes the operands of a pass in `compute` and without gradients, of all positions; forces
  // materialized operands. Null: no observer.
  const OperandObserver* observer = nullptr;
  // Adapters of the pass's GEMMs, of all positions and in `compute`; null: none. Excludes `only`,
  // `cache` and `observer`.
  std::shared_ptr<const LoraPass> loras{};

  // rows: a tensor or a NormedInput.
  template <class Rows>
  void observe(Operand operand, std::int64_t block, const Rows& rows) const {
    if (observer != nullptr) (*observer)(operand, block, NormedInput(rows).rows());
  }
  std::optional<Positions> scored(const Visit& visit) const {
    return visit.last ? only : std::nullopt;
  }
  // The rows of x [B, T, …] that are scored.
  at::Tensor scored_rows(const at::Tensor& x, const Visit& visit) const {
    const auto positions = scored(visit);
    return positions ? x.narrow(1, positions->from, positions->count()) : x;
  }
};

}  // namespace tg
