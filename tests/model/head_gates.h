#pragma once
// Recipes with a gate on attention's heads in every block.
#include <string>
#include <vector>

#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg::test {

// `kind`: but for its parameters, which are declared as "blocks.i.gate" and "blocks.i.gate.bias".
inline ModelSpec gated(const ModelConfig& config, const HeadGate& kind, bool bias = false) {
  auto spec = test::spec_of(config);
  const auto declare = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    spec.parameters.push_back({.name = name, .shape = shape, .update = Update::scalar});
    return ParameterId{std::ssize(spec.parameters) - 1};
  };
  const auto columns = kind.window == 0 ? config.model_dim : kind.window;
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    auto& gate = spec.plan.blocks[static_cast<std::size_t>(i)].head_gate;
    const auto name = "blocks." + std::to_string(i) + ".gate";
    gate = kind;
    gate.gate.weight = declare(name, {config.num_heads, columns});
    if (bias) gate.gate.bias = declare(name + ".bias", {config.num_heads});
  }
  return spec;
}

}  // namespace tg::test
