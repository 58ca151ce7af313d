#pragma once
// What one visit of a block passes to the next, and what all visits of a pass read.
#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "model/inference.h"
#include "model/lora_pass.h"
#include "model/operands.h"
#include "model/plan.h"
#include "ops/attention/documents.h"
#include "ops/attention/rope.h"
#include "ops/norm/residual_norm.h"

namespace tg {

struct Stream {
  at::Tensor x0{};  // [B, T, D] as terms, skip and input are; the first visit's input
  // The last visit's output as terms, which the next norm's kernel adds: their sum, or the two
  // lanes that the weights [2, 4] make of lane 0, lane 1, attention and MLP.
  MixTerms terms{};
  MixWeight lane_weights{};
  at::Tensor skip{};     // an earlier output that the next visit adds, or undefined
  at::Tensor values{};   // [B, T, KV·hd], the next visit's value embedding, or undefined
  at::Tensor first_v{};  // [B, T, KV, hd], the first visit's values, or undefined
  at::Tensor input{};    // the last visit's input x, where the plan keeps it, else undefined

  // Calls f with each of its tensors; the weights are the model's. x0 is before the terms: where
  // they are one tensor, autograd adds the gradients of recomputed()'s inputs in this order, as it
  // does without it.
  template <class F>
  void for_each_tensor(F&& f) {
    f(x0);
    for (auto& term : terms) f(term.tensor);
    for (auto* x : {&skip, &values, &first_v, &input}) f(*x);
  }
};

struct PassInputs {
  RopeTable rope{};  // of the inputs' positions
  bool fp8 = false;  // with the products in FP8 that there are
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

// visit(in) by recomputed() of recompute.h.
Stream recomputed(std::function<Stream(const Stream&)> visit, const Stream& in);

}  // namespace tg
