#pragma once
// The residual stream between the layer calls of a pass, shared by the recipes' flows.
#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "model/layers.h"

namespace tg {

// What a layer call passes to the next one.
struct ResidualStream {
  at::Tensor x0{};  // [B, T, D], as are terms, skip and input; the input of the first layer call
  // The last layer call's output as terms, which the next norm's kernel adds: their sum, or with
  // two lanes their mix by lane_weights [2, 4] of lane 0, lane 1, attention and MLP.
  MixTerms terms{};
  MixWeight lane_weights{};
  at::Tensor skip{};     // an earlier output that the next layer call adds, or undefined
  at::Tensor values{};   // [B, T, KV·hd], value embedding of the next layer call, or undefined
  at::Tensor first_v{};  // [B, T, KV, hd], values of the first layer call, or undefined
  at::Tensor input{};    // the last layer call's input x, if the plan saves it, else undefined

  // Calls f with each tensor, but not with the weights, which belong to the model. x0 precedes the
  // terms: if they are one tensor, autograd then accumulates the gradients of recomputed()'s inputs
  // in the order that it has without recomputation.
  template <class F>
  void for_each_tensor(F&& f) {
    f(x0);
    for (auto& term : terms) f(term.tensor);
    for (auto* x : {&skip, &values, &first_v, &input}) f(*x);
  }
};

// Computation of a layer call, given the stream that the previous one returned.
using LayerFlow = std::function<ResidualStream(const Layers& layers, const Layer& layer,
                                               const ResidualStream& in)>;
// Value embedding of a layer call [B, T, KV·hd], or undefined.
using CallValues = std::function<at::Tensor(const LayerCall& call)>;

struct PassOutput {
  ResidualStream stream;         // after the last layer call
  std::vector<at::Tensor> kept;  // by slot: saved inputs that no skip has consumed
};

// Runs the layer calls of a pass in order, starting with x0 [B, T, D]; recomputes each in the
// backward pass if layers.recomputes_blocks().
PassOutput run_layers(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                      const at::Tensor& x0_btd, const CallValues& values, const LayerFlow& call);

}  // namespace tg
