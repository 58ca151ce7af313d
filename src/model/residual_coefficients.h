#pragma once
// Coefficients of the residual stream that are computed from several parameters: once per step
// instead of in every layer call.
#include <ATen/ATen.h>

#include <cstdint>

#include "model/padded_copy.h"
#include "model/plan.h"
#include "ops/norm/residual_norm.h"

namespace tg {

// Coefficients of x and of the skip, for skips with gates or in layer calls with two lanes, and
// mixing weights of two lanes. At fixed addresses; their gradients accumulate beside them until
// collect_gradients(). Coefficients that the plan does not have stay undefined, and their
// parameters get no gradients.
class ResidualCoefficients {
 public:
  ResidualCoefficients() = default;
  // `dim`: the padded width of the residual stream.
  ResidualCoefficients(const Plan& plan, const ParameterTable& table, std::int64_t dim);

  // Computes the coefficients from the parameters, for a step.
  void make();
  // Adds the accumulated gradients to the parameters', and clears them.
  void collect_gradients();
  // The coefficients as constants.
  ResidualCoefficients as_constants() const;

  static bool makes_skip(const LayerCall& call) {
    return call.skip.weights && (call.skip.gates || call.lanes.residual);
  }
  // [2, D]: x ← c₀ ⊙ x + c₁ ⊙ skip, or x ← c₀ ⊙ x if x itself is the skip.
  MixWeight skip(const LayerCall& call) const { return row(skips_, call.skip.row); }
  // Weights of lane 0, lane 1, attention and MLP in each lane after the layer call [2, 4], and in
  // the final lane after the last layer call [1, 4].
  MixWeight lanes(const LayerCall& call) const { return row(lanes_, call.lanes.row); }
  const MixWeight& final_lane() const { return final_; }

 private:
  static MixWeight row(const MixWeight& weights, std::int64_t row);
  at::Tensor x_coefficient() const;  // of x: σ(g), or 1

  std::int64_t dim_ = 0;
  WeightSource skip_weights_, skip_gates_, residual_, post_;
  at::Tensor self_skip_;           // [S, 1], 1 if x itself is the skip, else 0
  at::Tensor final_lane_weights_;  // [2, 1], of the last layer call's lanes
  std::int64_t last_row_ = 0;
  MixWeight skips_, lanes_, final_;  // [S, 2, D], [L, 2, 4], [1, 4]
};

}  // namespace tg
