#pragma once
// The residual stream between the visits of a pass, which the recipes' flows share.
#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "model/layers.h"

namespace tg {

// What one visit of a block passes to the next.
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

// A visit's computation, of what the visit before passes to it.
using VisitFlow = std::function<Stream(const Layers& layers, const Layer& layer, const Stream& in)>;
// The value embedding of a visit [B, T, KV·hd], or undefined.
using VisitValues = std::function<at::Tensor(const Visit& visit)>;

struct PassOutput {
  Stream stream;                 // the last visit's
  std::vector<at::Tensor> kept;  // by slot: what no visit's skip took
};

// The visits of a pass in their order, of their input x0 [B, T, D]. Each is recomputed in the
// backward pass where the layers say so.
PassOutput run_visits(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                      const at::Tensor& x0_btd, const VisitValues& values, const VisitFlow& visit);

}  // namespace tg
