#include <cassert>
#include <utility>

#include "recipes/gpt_spec.h"
#include "recipes/residual_stream.h"

namespace tg {

namespace {

// m0 and m1 of the layer call's block, [2, D] or [2].
at::Tensor mix_of(const Layers& layers, const LayerCall& call) {
  const auto mix = layers[layers.plan().block(call).mix];
  return mix.dim() == 2 ? layers.widened(mix) : mix;
}

// Terms of a layer call's input mix, with one lane.
MixTerms entry_terms(const Layers& layers, const LayerCall& call, const ResidualStream& in) {
  auto terms = in.terms;
  auto mix = mix_of(layers, call);
  if (ResidualCoefficients::makes_skip(call)) {
    terms.push_back({.tensor = in.skip, .blend = layers.residual_coefficients().skip(call)});
  } else if (call.skip.weights) {
    const auto weight = layers.widened(layers[call.skip.weights][call.skip.row]);
    if (call.skip.slot)
      terms.push_back({.tensor = in.skip, .weight = weight});
    else  // x itself is the skip: folds its weight into m0
      mix = at::stack({mix[0] * (1 + weight), mix[1].expand_as(weight)});
  }
  terms.push_back({.tensor = in.x0, .blend = mix});
  return terms;
}

// σ(gate(x)) [B, T, 1]; x gets no gradient from it.
at::Tensor update_gate(const Layers& layers, const Gate& gate, const at::Tensor& x) {
  const Weight weight{layers.widened(layers[gate.weight]), {}};
  return (linear(x.detach(), weight) + layers[gate.bias]).sigmoid().to(x.scalar_type());
}

ResidualStream layer_in_one_lane(const Layers& layers, const Layer& layer,
                                 const ResidualStream& in) {
  const auto& call = layer.call();
  const auto entry = layer.norm_for_attention(entry_terms(layers, call, in),
                                              /*keep=*/call.keep_input ? in.terms.size() : 0);
  const auto attended = layer.attention(entry.y, in.values, in.first_v);
  const auto middle = layer.add_attention(entry.x, attended);
  const auto branch = layer.mlp(middle.y);

  ResidualStream out{.x0 = entry.x0, .first_v = attended.first_v, .input = entry.sum};
  if (const auto& gate = layer.block().update_gate; gate.weight) {
    const auto x = layer.scored(entry.x);
    out.terms = {{.tensor = x + update_gate(layers, gate, x) * (middle.x + branch.tensor - x)}};
  } else {
    out.terms = {{.tensor = middle.x}, branch};
  }
  return out;
}

ResidualStream layer_in_two_lanes(const Layers& layers, const Layer& layer,
                                  const ResidualStream& in) {
  const auto& call = layer.call();
  assert(!call.keep_input);
  LaneTerms terms{.terms = in.terms,
                  .weights = in.lane_weights,
                  .skip = in.skip,
                  .x0 = in.x0,
                  .mix = mix_of(layers, call)};
  if (call.skip.weights) terms.blend = layers.residual_coefficients().skip(call);
  const auto entry = layer.norm_lanes(terms);
  const auto attended = layer.attention(entry.y[0], in.values, in.first_v);
  const auto feeds = layer.scored(entry.y[1]);
  auto projected = layer.project(attended);
  return {.x0 = entry.x0,
          .terms = {{.tensor = layer.scored(entry.lanes[0])},
                    {.tensor = layer.scored(entry.lanes[1])},
                    std::move(projected),
                    layer.mlp(feeds)},
          .lane_weights = layers.residual_coefficients().lanes(call),
          .first_v = attended.first_v};
}

ResidualStream layer_flow(const Layers& layers, const Layer& layer, const ResidualStream& in) {
  return layer.call().lanes.residual ? layer_in_two_lanes(layers, layer, in)
                                     : layer_in_one_lane(layers, layer, in);
}

// The final norm, of the last layer call's output, for the head.
NormedInput final_norm(const Layers& layers, ResidualStream stream, const PassInputs& pass) {
  const auto norm = layers.head_norm(pass);
  if (!stream.lane_weights.defined()) return residual_norm(stream.terms, norm).y;
  // Does not read a lane whose weight is 0.
  const auto lane = layers.plan().head.lane;
  if (lane != ParallelFinalLane::mean)
    stream.terms[lane == ParallelFinalLane::attention ? 1 : 0].tensor.reset();
  const auto weights = layers.residual_coefficients().final_lane();
  return residual_norm({.lanes = 1, .terms = stream.terms, .weights = weights}, {norm}).y[0];
}

}  // namespace

NormedInput gpt_flow(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                     const at::Tensor& ids_bt, const at::Tensor& x0_btd) {
  const auto embedded =
      layers.embedding(layers.plan().value_embedding.table, ids_bt, inputs.id_order);
  const auto values = [&](const LayerCall& call) { return layers.call_values(call, embedded); };
  auto out = run_layers(layers, pass, inputs, x0_btd, values, layer_flow);
  return final_norm(layers, std::move(out.stream), inputs);
}

}  // namespace tg
