#include "recipes/residual_stream.h"
#include "recipes/speedrun_43.h"

namespace tg::record_43 {

namespace {

// x + σ(w)·skip, then λ0·x + λ1·x0. If x itself is the skip, its weight is folded into λ0.
MixTerms entry_terms(const Layers& layers, const Layer& layer, const ResidualStream& in) {
  const auto& skip = layer.call().skip;
  auto mix = layers[layer.block().mix];
  auto terms = in.terms;
  if (skip.weights) {
    const auto weight = layers[skip.weights][skip.row].sigmoid();
    if (skip.slot)
      terms.push_back({.tensor = in.skip, .weight = weight});
    else
      mix = at::stack({mix[0] * (1 + weight), mix[1]});
  }
  terms.push_back({.tensor = in.x0, .blend = mix});
  return terms;
}

ResidualStream layer_flow(const Layers& layers, const Layer& layer, const ResidualStream& in) {
  const auto& call = layer.call();
  const auto terms = entry_terms(layers, layer, in);
  const auto keep = call.keep_input ? in.terms.size() : 0;
  if (!call.attends) {
    const auto entry = layer.norm_for_mlp(terms, keep);
    return {.x0 = entry.x0, .terms = {{.tensor = entry.x}, layer.mlp(entry.y)}, .input = entry.sum};
  }
  const auto entry = layer.norm_for_attention(terms, keep);
  const auto attended = layer.attention(entry.y, in.values, /*first_v=*/{});
  const auto middle = layer.add_attention(entry.x, attended);
  return {.x0 = entry.x0, .terms = {{.tensor = middle.x}, layer.mlp(middle.y)}, .input = entry.sum};
}

}  // namespace

Flow flow(const FlowParameters& parameters) {
  return [parameters](const Layers& layers, const Pass& pass, const PassInputs& inputs,
                      const at::Tensor& ids_bt, const at::Tensor& x0_btd) {
    std::array<at::Tensor, kValueTables> rows;
    for (std::size_t k = 0; k < rows.size(); ++k)
      rows[k] = layers.embedding(parameters.value_tables[k], ids_bt, inputs.id_order);
    const auto values = [&](const LayerCall& call) {
      const auto table = value_table(call.block);
      return table < 0 ? at::Tensor()
                       : layers.call_values(call, rows[static_cast<std::size_t>(table)]);
    };
    auto [stream, kept] = run_layers(layers, pass, inputs, x0_btd, values, layer_flow);
    const auto backout = inputs.scored_rows(kept.back(), pass.calls.back()).contiguous();
    stream.terms.push_back({.tensor = backout, .weight = -layers[parameters.backout]});
    return residual_norm(stream.terms, layers.head_norm(inputs)).y;
  };
}

}  // namespace tg::record_43
