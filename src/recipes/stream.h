#pragma once
// The residual stream between the layer calls of a pass, which the recipes' flows share.
#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "model/layers.h"

namespace tg {

// State that one layer call passes to the next.
struct Stream {
  at::Tensor x0{};  // [B, T, D], as terms, skip and input; the first call's input
  // The last call's output as terms that the next norm's kernel adds: their sum, or the two lanes
  // that the weights [2, 4] make of lane 0, lane 1, attention and MLP.
  MixTerms terms{};
  MixWeight lane_weights{};
  at::Tensor skip{};     // an earlier output that the next call adds, or undefined
  at::Tensor values{};   // [B, T, KV·hd], the next call's value embedding, or undefined
  at::Tensor first_v{};  // [B, T, KV, hd], the first call's values, or undefined
  at::Tensor input{};    // the last call's input x, where the plan keeps it, else undefined

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

// Computes a layer call from the state that the call before passes to it.
using VisitFlow = std::function<Stream(const Layers& layers, const Layer& layer, const Stream& in)>;
// Returns the value embedding of a call [B, T, KV·hd], or undefined.
using VisitValues = std::function<at::Tensor(const Visit& visit)>;

struct PassOutput {
  Stream stream;                 // the last call's
  std::vector<at::Tensor> kept;  // by slot: outputs that no call's skip took
};

// Runs the layer calls of a pass in their order on its input x0 [B, T, D]. Each is recomputed in
// the backward pass if the layers say so.
PassOutput run_visits(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                      const at::Tensor& x0_btd, const VisitValues& values, const VisitFlow& visit);

}  // namespace tg
