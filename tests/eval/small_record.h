#pragma once
// The model of the GPU tests.
#include "tests/model/fixtures.h"

namespace tg::test {

// The record's parts, with heads of 64 for the Hopper kernels.
inline ModelConfig small_record(std::int64_t vocab) {
  ModelConfig c;
  c.vocab_size = vocab;
  c.num_layers = 4;
  c.model_dim = 128;
  c.num_heads = 2;
  c.num_kv_heads = 1;
  c.bigram_vocab_size = 512;
  c.xsa_last_n = 2;
  c.ve_layers = {1, 3};
  return c;
}

}  // namespace tg::test
