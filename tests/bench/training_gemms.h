#pragma once
// The GEMMs that a training step on a Hopper GPU leaves to cuBLAS, as the operations call them.
#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ops/gemm/gemm_problem.h"

namespace tg {

// configs/record.env and configs/speedrun_124m.env: sizes of a micro-step.
struct GemmRecipe {
  const char* name;
  std::int64_t tokens, layers, dim, hidden, qkv_dim, vocab;
};
std::span<const GemmRecipe> gemm_recipes();

struct TrainingGemm {
  enum class Kind { forward, input_gradient, weight_gradient } kind;
  std::string name;
  bool fp8;                      // its operands
  bool in_bf16, in_fp8;          // the trainings, with FP8=0 and FP8=1, that compute it
  std::int64_t per_step;         // how often
  std::int64_t tokens, out, in;  // of x [tokens, in] and W [out, in]
  bool fast = false;             // FP8: accumulated with 14 bits
  bool e5m2 = false;             // FP8: the output's gradient, which is a

  GemmProblem problem() const;
  double flops() const;
  // Random normal operands, and an accumulator of the result's magnitude.
  GemmTensors make_tensors(at::Device device) const;
  // What the operations call today → the result: a new tensor or, where it accumulates, out.
  at::Tensor call(const GemmTensors& tensors) const;
};
std::vector<TrainingGemm> training_gemms(const GemmRecipe& recipe);

}  // namespace tg
