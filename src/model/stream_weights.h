#pragma once
// What the residual stream is multiplied by where that is made of several parameters: once a step,
// so that no visit computes it.
#include <ATen/ATen.h>

#include <cstdint>

#include "model/padded_copy.h"
#include "model/plan.h"
#include "ops/norm/residual_norm.h"

namespace tg {

// Of skips with gates, and of those of visits in two lanes: the shares of x and of the skip; of
// visits in two lanes the weights of what they leave. At addresses that do not change; gradients
// accumulate beside them. What the plan does not have stays undefined, and its parameters without
// gradients.
class StreamWeights {
 public:
  StreamWeights() = default;
  // `dim`: the width that blocks compute with.
  StreamWeights(const Plan& plan, const ParameterTable& table, std::int64_t dim);

  // Of the parameters, for a step.
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
  // Of lane 0, lane 1, attention and MLP in each lane after the visit [2, 4], and in the final
  // lane, of the last visit [1, 4].
  MixWeight lanes(const Visit& visit) const { return row(lanes_, visit.lanes.row); }
  const MixWeight& final_lane() const { return final_; }

 private:
  static MixWeight row(const MixWeight& of, std::int64_t row);
  at::Tensor share() const;  // of x: σ(g), or 1

  std::int64_t dim_ = 0;
  WeightSource skip_weights_, skip_gates_, residual_, post_;
  at::Tensor own_;           // [S, 1], 1 where x itself is the skip, else 0
  at::Tensor final_shares_;  // of the last visit's lanes, [2, 1]
  std::int64_t last_row_ = 0;
  MixWeight skips_, lanes_, final_;  // [S, 2, D], [L, 2, 4], [1, 4]
};

}  // namespace tg
