#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "config/derived.h"
#include "config/settings.h"
#include "model/padding.h"

namespace tg {

// Precision, padding and recomputation of the passes.
struct Numerics {
  at::ScalarType compute = at::kFloat;  // of activations and GEMMs
  bool record_quirks = false;  // RoPE frequencies and QAT round as in the reference implementation
  Padding padding{};
  RopeStretch rope{};
  // Activations that backward recomputes.
  ActivationRecompute recompute = ActivationRecompute::off;
  Fp8Parts fp8{};        // GEMMs computed in FP8 by passes that ask for it
  bool has_fp8 = false;  // false: these GEMMs run in `compute`, and the scales do not change
  std::int64_t step_tokens = 1;  // divisor of a token's loss in a step's; for FP8
  std::int64_t bos_id = 0;       // begins a document; the smear gate is closed before it
};

}  // namespace tg
