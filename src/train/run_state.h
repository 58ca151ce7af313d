#pragma once
// The state of a run: all that is saved and restored so that a resumed run continues exactly.
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/saved_state.h"
#include "config/batch_shape.h"
#include "config/runtime_config.h"
#include "config/settings.h"
#include "data/feeder.h"
#include "model/parameters.h"
#include "optim/averaging.h"
#include "optim/optimizer.h"
#include "run_log/events.h"
#include "train/run_clock.h"
#include "train/train_step.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Handles steps with a non-finite loss or gradient as ON_NONFINITE says. Overflows with a loss
// scale above 1 are expected and only counted. All ranks read the same metrics, so they take the
// same decision.
class FiniteWatch {
 public:
  explicit FiniteWatch(const RuntimeConfig& config) : config_(config) {}
  // Call it after each step; reports a step whose update was skipped. Throws ExitCode::internal at
  // the first such step with ON_NONFINITE=stop, or at the NONFINITE_LIMITth in a row with `skip`.
  std::optional<StepSkipped> after_step(std::int64_t step, const StepMetrics& metrics);

  void visit_state(auto&& call) {
    call("finite_watch.skipped", skipped_);
    call("finite_watch.in_a_row", in_a_row_);
    call("finite_watch.overflows", overflows_);
  }

 private:
  const RuntimeConfig config_;
  std::int64_t skipped_ = 0, in_a_row_ = 0, overflows_ = 0;
};

// A copy of the state that shares no storage with it.
struct RunSnapshot {
  std::vector<std::pair<std::string, StateScalar>> scalars;
  NamedTensors tensors;
};

// Does not include what follows from it: schedules follow from step and clock, training draws no
// random numbers, and gradients are zero except those that the optimizer keeps.
class RunState final : public SavedState {
 public:
  // All references must outlive this object.
  RunState(const Settings& settings, at::Device device, Communicator& communicator,
           const Plan& plan, const ParameterTable& parameters, const Optimizer& optimizer,
           const Fp8Scales& fp8_scales, Feeder& feeder);

  std::int64_t tokens = 0;  // trained on so far, over all ranks
  bool fake_quant = false;  // whether QAT has begun
  std::int64_t stage = 0;   // index of the plan's stage that passes compute
  RunClock clock;
  FiniteWatch finite_watch;
  std::optional<WeightAverage> average;          // from the first step on
  std::optional<ValidationSummary> validations;  // from the first validation on
  double validation_ms = 0;                      // time spent in validation

  // Shape of the micro-batches; may be changed between steps.
  const BatchShape& shape() const { return shape_; }
  void set_shape(const BatchShape& shape);
  void start_average();
  void add_validation(std::int64_t at_step, double loss);

  // Names: "parameter.NAME", "optimizer.NAME" as in Optimizer, "model.NAME" as in Fp8Scales,
  // "average.NAME". Scalars are equal on all ranks, except the clock's: rank 0's are saved.
  void visit(StateVisitor& visitor) override;
  ModelRecord record() const override;

  // Copies the state, except gradients that no update uses: the reference implementation's warm-up,
  // which resets everything else, leaves its gradients in them. The copy is on the same devices, or
  // with `on_host` in host memory.
  RunSnapshot save(bool on_host = false);
  // Precondition: the snapshot is of a run with the same settings.
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
