#include "recipes/gpt_flow.h"

#include <cassert>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "model/layers.h"
#include "model/recompute.h"

namespace tg {

namespace {

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

std::vector<at::Tensor> tensors_of(Stream stream) {
  std::vector<at::Tensor> tensors;
  stream.for_each_tensor([&](const at::Tensor& x) { tensors.push_back(x); });
  return tensors;
}

Stream with_tensors(Stream stream, const std::vector<at::Tensor>& tensors) {
  std::size_t i = 0;
  stream.for_each_tensor([&](at::Tensor& x) { x = tensors[i++]; });
  return stream;
}

// All but its tensors, which would live as long as it does.
Stream form_of(Stream stream) {
  stream.for_each_tensor([](at::Tensor& x) { x.reset(); });
  return stream;
}

// visit(in) by recomputed() of model/recompute.h.
Stream recomputed_visit(std::function<Stream(const Stream&)> visit, const Stream& in) {
  const auto form = std::make_shared<Stream>();  // of the result
  const auto out = recomputed(
      [visit = std::move(visit), from = form_of(in), form](const std::vector<at::Tensor>& tensors) {
        const auto result = visit(with_tensors(from, tensors));
        *form = form_of(result);
        return tensors_of(result);
      },
      tensors_of(in));
  return with_tensors(*form, out);
}

// m0 and m1 of the visit's block, [2, D] or [2].
at::Tensor mix_of(const Layers& layers, const Visit& visit) {
  const auto mix = layers[layers.plan().block(visit).mix];
  return mix.dim() == 2 ? layers.widened(mix) : mix;
}

// The terms of a visit's first line, of one lane.
MixTerms entry_terms(const Layers& layers, const Visit& visit, const Stream& in) {
  auto terms = in.terms;
  auto mix = mix_of(layers, visit);
  if (StreamWeights::makes_skip(visit)) {
    terms.push_back({.tensor = in.skip, .shares = layers.stream_weights().skip(visit)});
  } else if (visit.skip.weights) {
    const auto weight = layers.widened(layers[visit.skip.weights][visit.skip.row]);
    if (visit.skip.slot)
      terms.push_back({.tensor = in.skip, .weight = weight});
    else  // x itself: in m0
      mix = at::stack({mix[0] * (1 + weight), mix[1].expand_as(weight)});
  }
  terms.push_back({.tensor = in.x0, .shares = mix});
  return terms;
}

// σ(gate(x)) [B, T, 1], without a gradient for x.
at::Tensor update_share(const Layers& layers, const Gate& gate, const at::Tensor& x) {
  const Weight weight{layers.widened(layers[gate.weight]), {}};
  return (linear(x.detach(), weight) + layers[gate.bias]).sigmoid().to(x.scalar_type());
}

Stream visit_in_one_lane(const Layers& layers, const Layer& layer, const Stream& in) {
  const auto& visit = layer.visit();
  const auto entry = layer.norm_for_attention(entry_terms(layers, visit, in),
                                              /*keep=*/visit.keep_input ? in.terms.size() : 0);
  const auto attended = layer.attention(entry.y, in.values, in.first_v);
  const auto middle = layer.add_attention(entry.x, attended);
  const auto branch = layer.mlp(middle.y);

  Stream out{.x0 = entry.x0, .first_v = attended.first_v, .input = entry.sum};
  if (const auto& gate = layer.block().update_gate; gate.weight) {
    const auto x = layer.scored(entry.x);
    out.terms = {{.tensor = x + update_share(layers, gate, x) * (middle.x + branch.tensor - x)}};
  } else {
    out.terms = {{.tensor = middle.x}, branch};
  }
  return out;
}

Stream visit_in_two_lanes(const Layers& layers, const Layer& layer, const Stream& in) {
  const auto& visit = layer.visit();
  assert(!visit.keep_input);
  LaneTerms terms{.terms = in.terms,
                  .weights = in.lane_weights,
                  .skip = in.skip,
                  .x0 = in.x0,
                  .mix = mix_of(layers, visit)};
  if (visit.skip.weights) terms.shares = layers.stream_weights().skip(visit);
  const auto entry = layer.norm_lanes(terms);
  const auto attended = layer.attention(entry.y[0], in.values, in.first_v);
  const auto feeds = layer.scored(entry.y[1]);
  auto projected = layer.project(attended);
  return {.x0 = entry.x0,
          .terms = {{.tensor = layer.scored(entry.lanes[0])},
                    {.tensor = layer.scored(entry.lanes[1])},
                    std::move(projected),
                    layer.mlp(feeds)},
          .lane_weights = layers.stream_weights().lanes(visit),
          .first_v = attended.first_v};
}

Stream flow_through(const Layers& layers, const Visit& visit, const Stream& in,
                    const PassInputs& pass) {
  const auto run = [&layers, &visit, pass](const Stream& from) {
    const Layer layer(layers, visit, pass, from.x0);
    return visit.lanes.residual ? visit_in_two_lanes(layers, layer, from)
                                : visit_in_one_lane(layers, layer, from);
  };
  return layers.recomputes_blocks() ? recomputed_visit(run, in) : run(in);
}

// The norm of what the last visit left, for the head.
NormedInput final_norm(const Layers& layers, Stream stream, const PassInputs& pass) {
  const auto norm = layers.head_norm(pass);
  if (!stream.lane_weights.defined()) return residual_norm(stream.terms, norm).y;
  // A lane that nothing is of is not read.
  const auto lane = layers.plan().head.lane;
  if (lane != FinalLane::mean) stream.terms[lane == FinalLane::first ? 1 : 0].tensor.reset();
  return lanes_norm({.terms = stream.terms, .weights = layers.stream_weights().final_lane()},
                    {norm})
      .y[0];
}

}  // namespace

NormedInput gpt_flow(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                     const at::Tensor& ids_bt, const at::Tensor& x0_btd) {
  const auto embedded = layers.value_embedding(ids_bt);
  Stream stream{.x0 = x0_btd, .terms = {{.tensor = x0_btd}}};
  std::vector<at::Tensor> kept(static_cast<std::size_t>(pass.slots));
  const auto slot = [&](std::int64_t i) -> at::Tensor& {
    return kept[static_cast<std::size_t>(i)];
  };
  for (const auto& visit : pass.visits) {
    if (visit.skip.slot) stream.skip = std::exchange(slot(*visit.skip.slot), {});
    stream.values = layers.visit_values(visit, embedded);
    stream = flow_through(layers, visit, stream, inputs);
    if (visit.keep_input) slot(*visit.keep_input) = std::exchange(stream.input, {});
  }
  return final_norm(layers, std::move(stream), inputs);
}

}  // namespace tg
