#pragma once
// What one visit of a block passes to the next, and what all visits of a pass read.
#include <ATen/ATen.h>

#include <array>
#include <functional>
#include <optional>

#include "model/inference.h"
#include "model/plan.h"
#include "ops/attention/rope.h"
#include "ops/gemm/fp8.h"

namespace tg {

struct Stream {
  at::Tensor x0{};  // [B, T, D] as x, skip, branch and input are; the first visit's input
  at::Tensor x{};
  at::Tensor skip{};     // an earlier output that the next visit adds, or undefined
  at::Tensor branch{};   // x + branch is the last visit's output: the next norm's kernel adds it
  at::Tensor values{};   // [B, T, KV·hd], the next visit's value embedding, or undefined
  at::Tensor first_v{};  // [B, T, KV, hd], the first visit's values, or undefined
  at::Tensor input{};    // the last visit's input x, where the plan keeps it, else undefined
  // Of the FP8 product that `branch` is; undefined: of no such.
  Fp8Scaling branch_gradient_scaling{};

  // All of its tensors. x0 is before x: where they are one tensor, autograd adds the gradients of
  // recomputed()'s inputs in this order, as it does without it.
  static constexpr auto tensors() {
    return std::to_array({&Stream::x0, &Stream::x, &Stream::skip, &Stream::branch, &Stream::values,
                          &Stream::first_v, &Stream::input});
  }
};

struct PassInputs {
  RopeTable rope;    // of the inputs' positions
  bool fp8 = false;  // with the products in FP8 that there are
  // The positions that are scored, if not all: the last visit's queries, attention output and MLP
  // serve no others. Never in passes with gradients.
  std::optional<Positions> only{};
  DecodeCache* cache = nullptr;  // of the tokens before the pass's own; null: there are none

  std::optional<Positions> scored(const Visit& visit) const {
    return visit.last ? only : std::nullopt;
  }
  // The rows of x [B, T, …] that are scored.
  at::Tensor scored_rows(const at::Tensor& x, const Visit& visit) const {
    const auto positions = scored(visit);
    return positions ? x.narrow(1, positions->from, positions->count()) : x;
  }
};

// visit(in) by recomputed() of recompute.h, without branch_gradient_scaling.
Stream recomputed(std::function<Stream(const Stream&)> visit, const Stream& in);

}  // namespace tg
