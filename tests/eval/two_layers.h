#pragma once
// The model of the tests of phased test-time training, in fp64.
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg::test {

// The last record's parts in three calls of two blocks, the last call in two lanes.
inline ModelConfig two_layers() {
  auto c = tiny_last_record();
  c.num_layers = c.xsa_last_n = 2;
  c.model_dim = 16;
  c.num_heads = c.num_kv_heads = 2;
  c.mlp_mult = 1;
  c.rope_dims = 4;
  c.gates.gate_window = 5;
  c.recurrence = {.num_loops = 1, .loop_start = 0, .loop_end = 0};
  c.lanes.parallel_start_layer = 1;
  return c;
}

struct TwoLayers {
  static constexpr std::int64_t kBos = 1;  // begins a document
  explicit TwoLayers(const RopeStretch& rope = {})
      : table(random_parameters(two_layers(), at::kDouble, 1)),
        gpt(plan_of(two_layers()), table, {.compute = at::kDouble, .rope = rope, .bos_id = kBos}) {
    gpt.cast_weights();
  }
  ParameterTable table;
  Gpt gpt;
};

}  // namespace tg::test
