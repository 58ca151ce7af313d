#pragma once
// A call of lanes_norm: which terms, with inputs and upstream gradients drawn for it.
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <utility>
#include <vector>

#include "ops/norm/lanes_norm.h"
#include "tests/ops/tensors.h"

namespace tg::test {

using NamedRows = std::vector<std::pair<std::string, at::Tensor>>;

struct LaneCase {
  const char* name;
  std::int64_t lanes = 2;
  std::vector<bool> terms{true, true, true, true};  // which of the four are there
  bool weighted = true;                             // else x [+ branch]
  bool skip = false, own_skip = false, mix = false;
  bool accumulates = false;  // the parameters' gradients, in buffers of ones
  bool padded = false;       // three channels that the means do not count
  NormedForm form = NormedForm::written;
  std::string unused = "";  // outputs without an upstream gradient: 0, 1 (lanes), m, y (norms), x
};

// Outputs and gradients, computed in `computed` on `device`, of inputs rounded to `rounded`;
// parameters are rounded to fp32.
inline NamedRows run_lanes(const LaneCase& of, std::int64_t rows, std::int64_t width,
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
  // Bounded: the tolerance knows no element that is many times the others' size.
  const auto parameter = [&](const std::string& name, bool given, at::IntArrayRef shape) {
    auto drawn = normal(shape, seed++).tanh().to(at::kFloat).to(device, fp32);
    if (!given) return MixWeight();
    leaves.emplace_back(name, drawn);
    if (!of.accumulates) return MixWeight(drawn.set_requires_grad(true));
    drawn.mutable_grad() = at::ones_like(drawn);
    return MixWeight(drawn, drawn.grad());
  };
  LaneTerms in;
  for (std::size_t t = 0; t < of.terms.size(); ++t)
    in.terms.push_back({.tensor = row("term " + std::to_string(t), of.terms[t])});
  in.weights = parameter("weights", of.weighted, {of.lanes, std::ssize(of.terms)});
  in.skip = row("skip", of.skip);
  in.shares = parameter("shares", of.skip || of.own_skip, {2, width});
  in.x0 = row("x0", of.mix);
  in.mix = parameter("mix", of.mix, {2, width});
  const auto channels = of.padded ? width - 3 : 0;
  const auto out = lanes_norm(in, {NormOptions{.scale = 0.5, .channels = channels, .form = of.form},
                                   {.scale = 0.7, .channels = channels, .form = of.form}});
  NamedRows found;
  torch::autograd::variable_list outputs, upstream;
  const auto add = [&](const char* letter, const at::Tensor& output, bool is_result = true) {
    const auto gradient = normal({rows, width}, seed++, rounded).to(device);
    if (!output.defined()) return;
    if (is_result) found.emplace_back(letter, output);
    if (of.unused.find(letter) != std::string::npos || !output.requires_grad()) return;
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
    // An input without influence has a gradient of zeros, or none.
    found.emplace_back("d" + name, leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf));
  }
  return found;
}

}  // namespace tg::test
