#pragma once
// Per-step precomputed coefficients of the residual stream, for terms whose weight several
// parameters make.
#include <ATen/ATen.h>

#include <cstdint>

#include "model/padded_copy.h"
#include "model/plan.h"
#include "ops/norm/residual_norm.h"

namespace tg {

// Coefficients of gated skips, and of skips of calls in two lanes: of x and of the skip; and of
// calls in two lanes of their outputs. At fixed addresses; gradients accumulate beside them.
// Coefficients that the plan does not have are undefined, their parameters without gradients.
class StreamWeights {
 public:
  StreamWeights() = default;
  // `dim`: the width that blocks compute with.
  StreamWeights(const Plan& plan, const ParameterTable& table, std::int64_t dim);

  // Computes the coefficients from the parameters, once a step.
  void make();
  // Adds to the parameters' gradients what has accumulated, and clears it.
  void collect_gradients();
  // What make() makes, as constants.
  StreamWeights frozen() const;

  static bool makes_skip(const Visit& visit) {
    return visit.skip.weights && (visit.skip.gates || visit.lanes.residual);
  }
  // [2, D]: x ← shares₀ ⊙ x + shares₁ ⊙ skip, or where x itself is the skip shares₀ ⊙ x.
  MixWeight skip(const Visit& visit) const { return row(skips_, visit.skip.row); }
  // Coefficients of lane 0, lane 1, attention and MLP in each lane after the call [2, 4]; in the
  // final lane, of the last call [1, 4].
  MixWeight lanes(const Visit& visit) const { return row(lanes_, visit.lanes.row); }
  const MixWeight& final_lane() const { return final_; }

 private:
  static MixWeight row(const MixWeight& of, std::int64_t row);
  at::Tensor share() const;  // of x: σ(g), or 1

  std::int64_t dim_ = 0;
  WeightSource skip_weights_, skip_gates_, residual_, post_;
  at::Tensor own_;           // [S, 1], 1 where x itself is the skip, else 0
  at::Tensor final_shares_;  // of the last call's lanes, [2, 1]
  std::int64_t last_row_ = 0;
  MixWeight skips_, lanes_, final_;  // [S, 2, D], [L, 2, 4], [1, 4]
};

}  // namespace tg
