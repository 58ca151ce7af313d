#pragma once
// What a run's state is: all that must be saved and put back for it to go on as if nothing had
// happened in between.
#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/saved_state.h"
#include "config/batch_shape.h"
#include "config/settings.h"
#include "data/feeder.h"
#include "model/parameters.h"
#include "optim/averaging.h"
#include "optim/optimizer.h"
#include "run_log/events.h"
#include "train/finite_watch.h"
#include "train/run_clock.h"
#include "weights/named_tensors.h"

namespace tg {

// A copy of the state; shares no storage with it.
struct RunSnapshot {
  std::vector<std::pair<std::string, StateScalar>> scalars;
  NamedTensors tensors;
};

// The schedules follow from step and clock, training draws no random numbers, and gradients are
// zero, but for those that the optimizer keeps.
class RunState final : public SavedState {
 public:
  // The plan, the parameters, the optimizer, the scales and the feeder are the run's and must
  // outlive this.
  RunState(const Settings& settings, at::Device device, Communicator& communicator,
           const Plan& plan, const ParameterTable& parameters, const Optimizer& optimizer,
           const Fp8Scales& fp8_scales, Feeder& feeder);

  std::int64_t tokens = 0;  // that these steps trained on, over all ranks
  bool fake_quant = false;  // QAT has begun
  std::int64_t stage = 0;   // of the model's plan that passes compute
  RunClock clock;
  FiniteWatch finite_watch;
  std::optional<WeightAverage> average;          // from the first step on
  std::optional<ValidationSummary> validations;  // from the first one on
  double validation_ms = 0;                      // spent on validation

  // Returns the shape of the micro-batches. Between two steps another one may be set.
  const BatchShape& shape() const { return shape_; }
  void set_shape(const BatchShape& shape);
  void start_average();
  void add_validation(std::int64_t at_step, double loss);

  // "parameter.NAME", "optimizer.NAME" as Optimizer names its state, "model.NAME" as Fp8Scales
  // names its own, "average.NAME". Scalars are the same on every rank, but for the clock: rank 0's
  // counts.
  void visit(StateVisitor& visitor) override;
  ModelRecord record() const override;

  // All but the gradients that no update ever takes: the reference implementation's warm-up, which
  // rewinds all else, leaves its own in them. The copy is on the same devices, or with `on_host` in
  // host memory.
  RunSnapshot save(bool on_host = false);
  // Precondition: `snapshot` is of a run with equal settings.
  void restore(const RunSnapshot& snapshot);

 private:
  void visit_rewound(StateVisitor& visitor);
  void visit_batches(StateVisitor& visitor);
  void visit_loader(StateVisitor& visitor);
  void visit_average(StateVisitor& visitor);
  void visit_validations(StateVisitor& visitor);

  const Settings& settings_;
  const Plan& plan_;
  const ParameterTable& parameters_;
  const Optimizer& optimizer_;
  const Fp8Scales& fp8_scales_;
  Feeder& feeder_;
  Communicator& communicator_;
  BatchShape shape_;
};

}  // namespace tg
