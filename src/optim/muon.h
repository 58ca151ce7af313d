#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "comm/communicator.h"
#include "optim/step_scalars.h"
#include "weights/named_tensors.h"

namespace tg {

struct MuonOptions {
  double lr;            // base rate, times StepScalars::lr_scale
  double weight_decay;  // decoupled
  std::int64_t newton_schulz_steps;
  at::ScalarType dtype;  // of the momentum buffer, the reduced gradient and the iteration
};

// Muon with Nesterov momentum (Jordan et al. 2024) on banks [n, rows, columns], each matrix on its
// own and each rank with its share of them (Parallel Muon, as in the record of 2026-03-23):
//   b ← μ·b + g;  u = newton_schulz(g + μ·b)
//   p ← p·(1 − lr·weight_decay) − lr·√max(1, rows/columns)·u
class Muon {
 public:
  Muon(NamedTensors banks, const MuonOptions& options, Communicator& communicator);

  // gradients: of each bank this rank's matrices, [count, rows, columns] in options.dtype, as
  // Reduction gives them; `clip` [] fp32 scales them. A bank's updates travel while the next bank's
  // are computed. Collective.
  void step(const StepScalars& scalars, const std::vector<at::Tensor>& gradients,
            const at::Tensor& clip);
  // Sharing storage: "momentum.NAME.I" of this rank's matrices, [rows, columns] each, I of the
  // bank.
  NamedTensors state() const;

 private:
  // → [count, rows, columns]
  at::Tensor update_of(std::size_t bank, const at::Tensor& gradient, const at::Tensor& mu,
                       const at::Tensor& clip, const at::Tensor& skip);
  // Starts filling gathered_[bank]; `mine`: this rank's updates.
  Pending gather(std::size_t bank, const at::Tensor& mine);
  void apply(std::size_t bank, const at::Tensor& updates, const at::Tensor& rate);

  NamedTensors banks_;
  std::vector<at::Tensor> momentum_;
  std::vector<at::Tensor> gathered_;  // [≥ n, rows, columns], all ranks' updates; none for one rank
  MuonOptions options_;
  Communicator& communicator_;
};

}  // namespace tg
