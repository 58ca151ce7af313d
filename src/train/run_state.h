#pragma once
// What a run's state is: all that must be saved and put back for it to go on as if nothing had
// happened in between.
#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/named_tensors.h"
#include "config/batch_shape.h"
#include "config/settings.h"
#include "data/feeder.h"
#include "model/parameters.h"
#include "optim/averaging.h"
#include "optim/optimizer.h"
#include "train/events.h"
#include "train/finite_watch.h"
#include "train/run_clock.h"

namespace tg {

using StateScalar = std::variant<std::int64_t, double, bool>;

// Whether every rank has a tensor of the state, with the same values, or this rank alone.
enum class Placement { replicated, sharded };

// Is called with every part of the state by name, always in the same order. It may change scalars
// and write to tensors, with immediate effect. A scalar that counts tensors is visited before them.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  virtual void operator()(const std::string& name, std::int64_t& value) = 0;
  virtual void operator()(const std::string& name, double& value) = 0;
  virtual void operator()(const std::string& name, bool& value) = 0;
  virtual void operator()(const std::string& name, const at::Tensor& value,
                          Placement placement = Placement::replicated) = 0;
};

// A copy of the state, which shares no storage with it.
struct RunSnapshot {
  std::vector<std::pair<std::string, StateScalar>> scalars;
  NamedTensors tensors;
};

// Between two steps, with nothing under way on the device and the clock stopped. The schedules
// follow from step and clock, training draws no random numbers, and gradients are zero, but for
// those that the optimizer keeps.
class RunState {
 public:
  // The parameters, the optimizer, the scales and the feeder are the run's own and must outlive
  // this.
  RunState(const Settings& settings, at::Device device, Communicator& communicator,
           const ParameterTable& parameters, const Optimizer& optimizer,
           const Fp8Scales& fp8_scales, Feeder& feeder);

  std::int64_t step = 0;    // steps done, their metrics read back
  std::int64_t tokens = 0;  // that these steps trained on, over all ranks
  bool fake_quant = false;  // QAT has begun
  RunClock clock;
  FiniteWatch finite_watch;
  std::optional<WeightAverage> average;          // from the first step on
  std::optional<ValidationSummary> validations;  // from the first one on
  double validation_ms = 0;                      // spent on validation

  // Of the micro-batches. Between two steps another one may be set.
  const BatchShape& shape() const { return shape_; }
  void set_shape(const BatchShape& shape);
  void start_average();
  void add_validation(std::int64_t at_step, double loss);

  // "parameter.NAME", "optimizer.NAME" as Optimizer names its state, "model.NAME" as Fp8Scales
  // names its own, "average.NAME". Scalars are the same on every rank, but for the clock: rank 0's
  // counts.
  void for_each_tensor(const std::function<void(const std::string&, const at::Tensor&)>& function);
  void for_each_scalar(const std::function<void(const std::string&, StateScalar)>& function);
  void visit(StateVisitor& visitor);

  // All but the gradients that the optimizer keeps: the reference implementation's warm-up, which
  // rewinds all else, leaves its own in them. The copy is on the same devices, or with `on_host` in
  // host memory.
  RunSnapshot save(bool on_host = false);
  // Wants a snapshot of a run with the same settings.
  void restore(const RunSnapshot& snapshot);

 private:
  void visit_rewound(StateVisitor& visitor);
  void visit_batches(StateVisitor& visitor);
  void visit_loader(StateVisitor& visitor);
  void visit_average(StateVisitor& visitor);
  void visit_validations(StateVisitor& visitor);

  const Settings& settings_;
  const ParameterTable& parameters_;
  const Optimizer& optimizer_;
  const Fp8Scales& fp8_scales_;
  Feeder& feeder_;
  Communicator& communicator_;
  BatchShape shape_;
};

}  // namespace tg
