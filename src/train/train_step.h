#pragma once
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "data/feeder.h"
#include "model/gpt.h"
#include "model/micro_step.h"
#include "optim/optimizer.h"
#include "train/phases.h"

namespace tg {

// Schedule values of one step.
struct StepSchedule {
  double lr_scale = 1.0;
  double momentum = 0.0;
  double clip_norm = 0.0;  // 0: no clipping
  double clock_ms = 0.0;   // rank 0's is broadcast with the metrics
  bool fake_quant = false;
  bool updates_all = true;  // also update rows with Update::every > 1
  Tie tie = Tie::none;
  // FurtherTargets::weights; empty if the step was constructed without further targets.
  std::vector<double> target_weights{};
  std::int64_t stage = 0;  // see Decisions
  // Event before which weights and optimizer state must not change.
  const c10::Event* state_copied = nullptr;
};

// Metrics of one step, equal on all ranks.
struct StepMetrics {
  double loss = 0;       // mean cross-entropy of the next tokens over all micro-batches
  double grad_norm = 0;  // global, before clipping
  bool skipped = false;  // loss or gradient is not finite: weights and optimizer state unchanged
  double clock_ms = 0;   // rank 0's StepSchedule::clock_ms
  bool stop = false;     // whether a rank was told to stop before its gradients were reduced
  // Used for the step's gradients; nullopt without loss scaling.
  std::optional<double> loss_scale{};
  std::optional<double> objective{};  // mean loss; nullopt without further targets

  // Converts the result of run(), copied to the CPU.
  static StepMetrics from_tensor(const at::Tensor& metrics);
};

// One optimizer step: gradients of all micro-batches, summed over ranks and divided by the number
// of micro-batches; clipping; update. Never waits for the device. Collective.
class TrainStep {
 public:
  // micro_batches: number over all ranks; graphs: see CapturedGraph. Collectives are never
  // captured, so that each has a timeout and an entry in the flight recorder: with several ranks,
  // the update's kernels are launched one by one while the GPU is busy with the passes.
  TrainStep(Gpt& model, Optimizer& optimizer, BatchFeed& feed, PhaseRecorder& phases,
            Communicator& communicator, std::int64_t micro_batches, at::Device device, bool graphs,
            std::optional<FurtherTargets> further = {});

  // Returns the data of StepMetrics, [6] fp32 on the device, [7] with further targets.
  at::Tensor run(const StepSchedule& plan);

  // Captures of the passes and of the update, see CapturedGraph.
  std::int64_t captures() const { return micro_step_.captures() + once_a_step_.captures(); }

  // Sets what a pass takes of micro-batches of this shape. `joined` must divide the micro-batches
  // of each rank.
  void set_pass_size(const BatchShape& shape, const PassSize& size);
  // Frees the captured graphs; the next steps capture them again.
  void release_graphs();

  // Run what a step allocates, to measure its memory: the passes over one chunk, which leave
  // gradients, and an update with zero gradients that changes nothing. rehearse_update() is
  // collective.
  void rehearse_passes(const DeviceBatch& part);
  void rehearse_update();
  // Runs the passes of plan.stage on the feed's next batch; changes nothing but the feed's
  // position. The first call is eager, the second one captures.
  void rehearse_stage(const StepSchedule& plan);

 private:
  // Work done once per step, in order; indices of the parts of once_a_step_.
  enum Part { cast_part, reduce_part, clip_part, update_part };
  void begin_step();
  void reduce_gradients();
  void clip_gradients();
  void update_weights();

  void set(const StepSchedule& plan);
  void cast_weights() {
    run_phase(Phase::optimizer, [this] { once_a_step_.run(cast_part); });
  }
  DeviceBatch next_batch();
  void take_shape(const BatchShape& shape);
  // Runs the passes of a micro-batch, or of those that were joined with it; returns false if their
  // pass awaits more.
  bool run_passes(const DeviceBatch& batch);
  void forward(const DeviceBatch& batch, std::int64_t part);
  void backward();
  void reduce(double clock_ms);
  // Returns the data of StepMetrics.
  at::Tensor clip();
  void update(const c10::Event* state_copied);
  // Runs `work` within a phase and records its waits for collectives.
  void run_phase(Phase phase, const std::function<void()>& work);

  Gpt& model_;
  Optimizer& optimizer_;
  BatchFeed& feed_;
  PhaseRecorder& phases_;
  Communicator& communicator_;
  std::int64_t micro_batches_;
  std::optional<FurtherTargets> further_;
  MicroStep micro_step_;
  BatchShape shape_;                           // shape that micro_step_ is set up for
  std::map<BatchShape, PassSize> pass_sizes_;  // by shape without its segments
  CapturedGraph once_a_step_;
  bool fake_quant_ = false;
  double clip_norm_ = 0;
  // [3] fp32: mean loss, rank 0's clock_ms, number of ranks told to stop; with further targets [4],
  // also the mean objective.
  at::Tensor reduced_;
  at::Tensor lr_scale_, momentum_, norm_, skip_;  // [] fp32
};

}  // namespace tg
