#pragma once
// The GEMMs that a training step on a Hopper GPU leaves to cuBLAS, as the operations call them.
#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ops/gemm/gemm_problem.h"

namespace tg {

// Sizes of a micro-step of configs/record.env and configs/speedrun_124m.env.
struct GemmRecipe {
  const char* name;
  std::int64_t tokens, layers, dim, hidden, qkv_dim, vocab;
};
std::span<const GemmRecipe> gemm_recipes();

struct TrainingGemm {
  enum class Kind { forward, input_gradient, weight_gradient } kind;
  std::string name;
  bool fp8;                      // the operands are FP8
  bool in_bf16, in_fp8;          // computed in training with FP8=0, with FP8=1
  std::int64_t per_step;         // calls per step
  std::int64_t tokens, out, in;  // shapes: x [tokens, in] and W [out, in]
  bool fast = false;             // FP8: accumulates with 14 bits
  bool e5m2 = false;             // FP8: operand a is the output gradient in e5m2

  GemmProblem problem() const;
  double flops() const;
  // Makes random normal operands, and an accumulator of the result's magnitude.
  GemmTensors make_tensors(at::Device device) const;
  // Runs what the operations call today; returns a new tensor, or `out` if the call accumulates.
  at::Tensor call(const GemmTensors& tensors) const;
};
std::vector<TrainingGemm> training_gemms(const GemmRecipe& recipe);

}  // namespace tg
