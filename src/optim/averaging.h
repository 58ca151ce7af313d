#pragma once
#include <ATen/ATen.h>

#include <deque>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "config/settings.h"
#include "model/parameters.h"
#include "optim/shard.h"
#include "weights/named_tensors.h"

namespace tg {

// Averages of the weights over the run, in fp32: LAWA (the mean of the last LAWA_K copies, taken
// every LAWA_FREQ steps; Kaddour 2022) if enabled, else EMA if enabled, else SWA (the mean of
// copies while the learning-rate scale is under 0.2; Izmailov et al. 2018) if enabled. LAWA with
// fewer than two copies falls back to EMA. Every rank averages its shards of what is sharded.
class WeightAverage {
 public:
  // With `record_quirks` SWA is never applied, as in the reference implementation.
  WeightAverage(const ParameterTable& table, const AveragingConfig& config,
                Communicator& communicator, bool record_quirks = false);

  // Whether SWA copies the weights after step `step` (1-based) that ran at `lr_scale`.
  bool takes_swa(std::int64_t step, double lr_scale) const;
  // Allocates every copy that the run will ever keep, so that their memory is taken; to be thrown
  // away afterwards.
  void allocate_all();
  // After step `step` (1-based), which ran at `lr_scale`. Returns true where SWA's copies begin,
  // also when they are not collected because another average goes first.
  bool update(std::int64_t step, double lr_scale);
  bool collects_swa() const { return keeps_swa_; }
  // Sets the weights to their average; once, at the end: it uses up what was collected. Returns the
  // log line that says which, empty: nothing to average. Collective.
  std::string apply();

  // Calls visit(name, value) with every counter (bool&, std::int64_t&), which it may set;
  // afterwards the copies that the counters imply exist.
  template <class Visit>
  void visit_counters(Visit&& visit) {
    auto lawa_copies = static_cast<std::int64_t>(lawa_.size());
    visit("swa_started", swa_started_);
    visit("swa_count", swa_count_);
    visit("lawa_copies", lawa_copies);
    allocate_copies(lawa_copies);
  }
  // The copies, sharing storage: "ema.NAME", "swa.NAME", "lawa.0.NAME" and so on, of shards for
  // each chunk (Shard::named).
  NamedTensors replicated_state() const { return state(/*sharded=*/false); }
  NamedTensors sharded_state() const { return state(/*sharded=*/true); }

 private:
  using Copy = std::vector<at::Tensor>;  // of each shard, in fp32
  void allocate_copies(std::int64_t lawa_copies);
  NamedTensors state(bool sharded) const;
  Copy copy_weights() const;
  void set_weights(const Copy& average);
  void update_ema();

  const ParameterTable& table_;
  const AveragingConfig config_;
  Communicator& communicator_;
  std::vector<Shard> shards_;  // of every parameter, in the table's order
  bool keeps_ema_, keeps_swa_, swa_started_ = false;
  Copy ema_, swa_sum_;
  std::int64_t swa_count_ = 0;
  std::deque<Copy> lawa_;
};

}  // namespace tg
