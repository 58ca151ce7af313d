#pragma once
#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "optim/step_scalars.h"

namespace tg {

struct MuonOptions {
  double lr;            // base rate, times StepScalars::lr_scale
  double weight_decay;  // decoupled
  std::int64_t newton_schulz_steps;
  at::ScalarType dtype;  // of the momentum buffer, the reduced gradient and the iteration
};

// Muon with Nesterov momentum (Jordan et al. 2024) on banks [n, rows, columns], each matrix on its
// own:
//   b ← μ·b + g;  u = newton_schulz(g + μ·b)
//   p ← p·(1 − lr·weight_decay) − lr·√max(1, rows/columns)·u
class Muon {
 public:
  Muon(std::vector<std::pair<std::string, at::Tensor>> banks, const MuonOptions& options);

  void step(const StepScalars& scalars);
  // Sharing storage: "momentum.NAME".
  std::vector<std::pair<std::string, at::Tensor>> state() const;

 private:
  std::vector<std::pair<std::string, at::Tensor>> banks_;
  std::vector<at::Tensor> momentum_;
  MuonOptions options_;
};

}  // namespace tg
