#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "config/attention_context.h"
#include "config/settings.h"
#include "model/padding.h"

namespace tg {

// How the passes compute.
struct Numerics {
  at::ScalarType compute = at::kFloat;  // of activations and GEMMs
  bool record_quirks = false;  // RoPE frequencies and QAT round as in the reference implementation
  Padding padding{};
  RopeStretch rope{};
  // Which activations backward computes again.
  ActivationRecompute recompute = ActivationRecompute::off;
  Fp8Parts fp8{};                // GEMMs that passes compute in FP8 if they ask for it
  bool has_fp8 = false;          // else they do so in `compute`, and the scales stay as they are
  std::int64_t step_tokens = 1;  // what a token's loss is divided by in a step's; for FP8
  std::int64_t bos_id = 0;       // begins a document, before which the smear gate is closed
};

}  // namespace tg
