#pragma once
#include <ATen/ATen.h>

#include <deque>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "config/settings.h"
#include "model/parameters.h"
#include "optim/shard.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Averages of the weights over the run, in fp32: LAWA if enabled (the mean of the last LAWA_K
// copies, taken every LAWA_FREQ steps; Kaddour 2022), else EMA if enabled, else SWA if enabled (the
// mean of copies taken while the learning-rate scale is below 0.2; Izmailov et al. 2018). LAWA with
// fewer than two copies falls back to EMA. Each rank averages its shards of sharded parameters.
class WeightAverage {
 public:
  // `record_quirks`: never applies SWA, as in the reference implementation.
  WeightAverage(const ParameterTable& table, const AveragingConfig& config,
                Communicator& communicator, bool record_quirks = false);

  // Returns whether SWA copies the weights after step `step` (1-based) that ran at `lr_scale`.
  bool takes_swa(std::int64_t step, double lr_scale) const;
  // Allocates all copies that the run will keep, to measure their memory; discard the object
  // afterwards.
  void allocate_all();
  // Updates the averages after step `step` (1-based), which ran at `lr_scale`. Returns true at the
  // step where SWA's copies begin, even if another average takes precedence and they are not
  // collected.
  bool update(std::int64_t step, double lr_scale);
  bool collects_swa() const { return keeps_swa_; }
  // Sets the weights to their average and returns the log line that names it; empty: no average.
  // Call it once, at the end: it consumes the copies. Collective.
  std::string apply();

  // Calls visit(name, value) with every counter (bool&, std::int64_t&), which it may set; allocates
  // the copies that the counters imply.
  void visit_counters(auto&& visit) {
    auto lawa_copies = static_cast<std::int64_t>(lawa_.size());
    visit("swa_started", swa_started_);
    visit("swa_count", swa_count_);
    visit("lawa_copies", lawa_copies);
    allocate_copies(lawa_copies);
  }
  // The copies, sharing storage: "ema.NAME", "swa.NAME", "lawa.0.NAME" and so on; shards are listed
  // by chunk (Shard::named).
  NamedTensors replicated_state() const { return state(/*sharded=*/false); }
  NamedTensors sharded_state() const { return state(/*sharded=*/true); }

 private:
  using Copy = std::vector<at::Tensor>;  // one per shard, in fp32
  void allocate_copies(std::int64_t lawa_copies);
  NamedTensors state(bool sharded) const;
  Copy weights(bool copies = false) const;  // in fp32
  Copy copy_weights() const { return weights(/*copies=*/true); }
  void set_weights(const Copy& average);

  const ParameterTable& table_;
  const AveragingConfig config_;
  Communicator& communicator_;
  std::vector<Shard> shards_;  // one per parameter, in the table's order
  bool keeps_ema_, keeps_swa_, swa_started_ = false;
  Copy ema_, swa_sum_;
  std::int64_t swa_count_ = 0;
  std::deque<Copy> lawa_;
};

}  // namespace tg
