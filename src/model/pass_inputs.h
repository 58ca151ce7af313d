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

// What a pass multiplies by the matrices: of a block's visit Q, K and V together, the output
// projection, W_up and W_down, and of the whole pass the head.
enum class Operand { qkv, out, up, down, head };

// Is called with each operand of a pass, [B, T, channels] in the compute dtype and with the padding
// of ComputeSizes, once it is computed; `block`: whose matrices these are, of the head -1.
using OperandObserver =
    std::function<void(Operand operand, std::int64_t block, const at::Tensor& rows)>;

struct PassInputs {
  RopeTable rope{};     // of the inputs' positions
  at::Tensor q_gain{};  // [heads] fp32, a constant of all visits; undefined: the blocks' own
  bool fp8 = false;     // with the products in FP8 that there are
  // The positions that are scored, if not all: the last visit's queries, attention output and MLP
  // serve no others. Never in passes with gradients.
  std::optional<Positions> only{};
  DecodeCache* cache = nullptr;  // of the tokens before the pass's own; null: there are none
  // Of the inputs: attention sees those of the own document alone. Neither with `only` nor `cache`.
  std::optional<Documents> documents{};
  // Sees the operands of a pass in `compute` and without gradients, of all positions; null: nobody
  // does. They are then written, whatever a kernel could spare.
  const OperandObserver* observer = nullptr;
  // Adapters of its products, of all positions and in `compute`; null: none. Neither with `only`,
  // `cache` nor `observer`.
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
