#pragma once
// A call of residual_norm with lanes: its terms, with random inputs and upstream gradients.
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <utility>
#include <vector>

#include "ops/norm/residual_norm.h"
#include "tests/ops/tensors.h"

namespace tg::test {

using NamedRows = std::vector<std::pair<std::string, at::Tensor>>;

struct LanesCall {
  const char* name;
  std::int64_t lanes = 2;
  std::vector<bool> terms{true, true, true, true};  // which of the four terms are present
  bool weighted = true;                             // otherwise x [+ branch]
  bool skip = false, own_skip = false, mix = false;
  bool accumulates = false;  // the parameters' gradients accumulate into buffers of ones
  bool padded = false;       // three channels are excluded from the means
  NormedForm form = NormedForm::materialized;
  std::string unused = "";  // outputs without an upstream gradient: 0, 1 (lanes), m, y (norms), x
};

// Returns outputs and gradients, computed in `computed` on `device` from inputs rounded to
// `rounded`; parameters are rounded to fp32.
inline NamedRows run_lanes(const LanesCall& call, std::int64_t rows, std::int64_t width,
                           at::Device device, at::ScalarType rounded, at::ScalarType computed) {
  std::uint64_t seed = 1;
  const auto fp32 = computed == at::kDouble ? at::kDouble : at::kFloat;
  NamedRows leaves;
  const auto row = [&](const std::string& name, bool given) {
    const auto drawn = normal({rows, width}, seed++, rounded).to(device, computed);
    if (!given) return at::Tensor();
    leaves.emplace_back(name, at::Tensor(drawn).set_requires_grad(true));
    return drawn;
  };
  // Bounded, because the tolerance assumes elements of similar size.
  const auto parameter = [&](const std::string& name, bool given, at::IntArrayRef shape) {
    auto drawn = normal(shape, seed++).tanh().to(at::kFloat).to(device, fp32);
    if (!given) return MixWeight();
    leaves.emplace_back(name, drawn);
    if (!call.accumulates) return MixWeight(drawn.set_requires_grad(true));
    drawn.mutable_grad() = at::ones_like(drawn);
    return MixWeight(drawn, drawn.grad());
  };
  LaneTerms in{.lanes = static_cast<std::size_t>(call.lanes)};
  for (std::size_t t = 0; t < call.terms.size(); ++t)
    in.terms.push_back({.tensor = row("term " + std::to_string(t), call.terms[t])});
  in.weights = parameter("weights", call.weighted, {call.lanes, std::ssize(call.terms)});
  in.skip = row("skip", call.skip);
  in.blend = parameter("blend", call.skip || call.own_skip, {2, width});
  in.x0 = row("x0", call.mix);
  in.mix = parameter("mix", call.mix, {2, width});
  const auto channels = call.padded ? width - 3 : 0;
  const auto out =
      residual_norm(in, {NormOptions{.scale = 0.5, .channels = channels, .form = call.form},
                         {.scale = 0.7, .channels = channels, .form = call.form}});
  NamedRows found;
  torch::autograd::variable_list outputs, upstream;
  const auto add = [&](const char* letter, const at::Tensor& output, bool is_result = true) {
    const auto gradient = normal({rows, width}, seed++, rounded).to(device);
    if (!output.defined()) return;
    if (is_result) found.emplace_back(letter, output);
    if (call.unused.find(letter) != std::string::npos || !output.requires_grad()) return;
    outputs.push_back(output);
    upstream.push_back(gradient.to(output.scalar_type()));
  };
  const auto rows_of = [&](const NormedInput& y) {
    if (!y.row_scale().defined()) return y.tensor();
    return y.tensor().to(at::kFloat) * y.row_scale().view({rows, 1});
  };
  add("0", out.lanes[0]);
  add("1", out.lanes[1]);
  add("m", rows_of(out.y[0]));
  add("y", rows_of(out.y[1]));
  add("x", out.x0, /*is_result=*/false);
  torch::autograd::backward(outputs, upstream);
  for (const auto& [name, leaf] : leaves) {
    // An input without influence has a zero gradient or none.
    found.emplace_back("d" + name, leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf));
  }
  return found;
}

}  // namespace tg::test
