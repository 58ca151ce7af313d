#pragma once
#include <functional>
#include <map>
#include <optional>

#include "data/feeder.h"
#include "model/gpt.h"
#include "model/micro_step.h"
#include "optim/optimizer.h"
#include "train/phases.h"

namespace tg {

// One step's values of the schedules.
struct StepPlan {
  double lr_scale = 1.0;
  double momentum = 0.0;
  double clip_norm = 0.0;  // 0: no clipping
  double clock_ms = 0.0;   // rank 0's is broadcast to all ranks with the metrics
  bool fake_quant = false;
  bool updates_all = true;                   // also what Update::every says
  std::int64_t stage = 0;                    // see Decisions
  const c10::Event* state_copied = nullptr;  // before which weights and optimizer state stay
};

// The metrics of one step, the same on every rank.
struct StepMetrics {
  double loss = 0;       // mean over all micro-batches
  double grad_norm = 0;  // global, before clipping
  bool skipped = false;  // one of them is not finite: weights and optimizer state stay as they were
  double clock_ms = 0;   // rank 0's StepPlan::clock_ms
  bool stop = false;     // a rank was told to stop before its gradients were reduced
  std::optional<double>
      loss_scale{};  // that the gradients were computed with; none without scaling

  // Reads run()'s result, copied to the CPU.
  static StepMetrics of(const at::Tensor& metrics);
};

// One optimizer step: gradients of all micro-batches, summed over ranks and divided by their
// number; clip; update. Nothing here waits for the device. Collective.
class TrainStep {
 public:
  // micro_batches: of all ranks; graphs: see CapturedGraph. Collectives are never captured, so that
  // each has its time limit and its place in the flight record: with other ranks the update is
  // launched kernel by kernel, while the GPU is busy with the passes before it.
  TrainStep(Gpt& model, Optimizer& optimizer, BatchFeed& feed, PhaseRecorder& phases,
            Communicator& communicator, std::int64_t micro_batches, at::Device device, bool graphs);

  // → StepMetrics, [6] fp32 on the device.
  at::Tensor run(const StepPlan& plan);

  // Returns how often the passes and the update were captured, see CapturedGraph.
  std::int64_t captures() const { return micro_step_.captures() + once_a_step_.captures(); }

  // From now on each micro-batch of that shape is computed in `parts` of its rows, see MicroStep.
  void set_parts(const BatchShape& shape, std::int64_t parts);
  // Frees the memory of the captured graphs; the next step captures them anew.
  void release_graphs();

  // What a step allocates, for measuring: the passes over one part and, with all gradients at 0, an
  // update that changes nothing. The first leaves its gradients. The second is collective.
  void rehearse_passes(const DeviceBatch& part);
  void rehearse_update();
  // Runs the passes of plan.stage on the feed's next batch, and changes nothing but the feed's
  // position. The first time they are eager, the second time captured.
  void rehearse_stage(const StepPlan& plan);

 private:
  // What is done once a step, in order, each a part of once_a_step_.
  enum Part { cast_part, reduce_part, clip_part, update_part };
  void begin_step();
  void reduce_gradients();
  void clip_gradients();
  void update_weights();

  void set(const StepPlan& plan);
  void cast_weights();
  DeviceBatch next_batch();
  void take_shape(const BatchShape& shape);
  void run_passes(const DeviceBatch& batch);
  void forward(const DeviceBatch& batch, std::int64_t part);
  void backward();
  void reduce(double clock_ms);
  // → what StepMetrics::of() reads.
  at::Tensor clip();
  void update(const c10::Event* state_copied);
  // Collectives that `work` waits for are added to the phase's waits.
  void run_phase(Phase phase, const std::function<void()>& work);

  Gpt& model_;
  Optimizer& optimizer_;
  BatchFeed& feed_;
  PhaseRecorder& phases_;
  Communicator& communicator_;
  std::int64_t micro_batches_;
  MicroStep micro_step_;
  BatchShape shape_;                          // that micro_step_ is made for
  std::map<BatchShape, std::int64_t> parts_;  // one, of a shape that is not here
  CapturedGraph once_a_step_;
  bool fake_quant_ = false;
  double clip_norm_ = 0;
  at::Tensor reduced_;  // [3] fp32: mean loss, rank 0's clock_ms, ranks that were told to stop
  at::Tensor lr_scale_, momentum_, norm_, skip_;  // [] fp32
};

}  // namespace tg
