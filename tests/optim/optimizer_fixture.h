#pragma once
// An Optimizer of a small model that has every kind of parameter.
#include <string>
#include <vector>

#include "model/init.h"
#include "tests/model/spec.h"
#include "tests/optim/helpers.h"

namespace tg::test {

inline ModelConfig config_with_every_part() {
  ModelConfig c;
  c.vocab_size = 12;
  c.num_layers = 2;
  c.num_heads = 2;
  c.num_kv_heads = 1;
  c.model_dim = 8;
  c.tie_embeddings = false;
  c.rope_dims = 0;
  c.bigram_vocab_size = 6;
  c.bigram_dim = 3;
  c.xsa_last_n = 0;
  c.ve_dim = 3;
  c.ve_layers = {1};
  c.dtg_enabled = true;
  c.gates.head_gate = HeadGateKind::biased;
  c.value_residual = ValueResidual::on;
  c.mtp_num_heads = 1;
  return c;
}

inline OptimConfig distinct_rates() {
  OptimConfig o;
  o.embed_lr = 0.5;
  o.tied_embed_lr = 0.25;
  o.scalar_lr = 0.125;
  o.head_lr = 0.0625;
  o.matrix_lr = 0.03125;
  o.adam_wd = o.muon_wd = 0;
  return o;
}

// A model of drawn weights with its optimizer, on one rank.
class OptimizerFixture {
 public:
  OptimizerFixture(const ModelConfig& config, const OptimConfig& optim,
                   const OptimizerOptions& options, at::ScalarType storage = at::kFloat,
                   const std::vector<std::string>& patterns = default_control_patterns())
      : model(config),
        table(make_parameters(
            model, storage, at::kCPU,
            {.control_patterns = patterns, .record_quirks = options.record_quirks})),
        optimizer(table, optim, options, alone) {
    std::uint64_t seed = 1;
    for (const auto& row : table.rows()) {
      row.value.detach().copy_(normal(row.value.sizes(), ++seed));
    }
  }
  void set_gradients(double size = 1) {
    std::uint64_t seed = 100;
    for (const auto& row : table.rows()) {
      set_gradient(row.value, normal(row.value.sizes(), ++seed) * size);
    }
  }
  at::Tensor reduce(double max_norm = 0) {
    optimizer.reduce(at::zeros({1}, at::kFloat), max_norm);
    return optimizer.clip(max_norm);
  }
  void step(const StepScalars& scalars) {
    reduce();
    gradients = gradients_of(table);
    optimizer.step(scalars);
  }
  NamedTensors weights() const { return clones(table.named_values()); }

  ModelConfig model;
  ParameterTable table;
  Communicator alone;
  Optimizer optimizer;
  NamedTensors gradients;  // that the last step() used
};

}  // namespace tg::test
