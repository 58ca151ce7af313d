#pragma once
#include "config/settings.h"
#include "data/feeder.h"
#include "model/gpt.h"
#include "optim/optimizer.h"
#include "train/micro_step.h"
#include "train/phases.h"

namespace tg {

// What the schedule says of one step.
struct StepPlan {
  double lr_scale = 1.0;
  double momentum = 0.0;
  double clip_norm = 0.0;  // 0: no clipping
  double clock_ms = 0.0;   // what rank 0's clock says to all ranks
  bool fake_quant = false;
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

  // → [4] fp32 on the device: the mean loss; the gradients' global norm before clipping; 1 where
  // one of them is not finite, and then weights and optimizer state stay as they are; rank 0's
  // clock_ms.
  at::Tensor run(const StepPlan& plan);

 private:
  enum Part { cast, reduce, update };  // of what is done once a step
  void set(const StepPlan& plan);
  void cast_weights();
  at::Tensor accumulate_gradients();
  DeviceBatch next_batch();
  at::Tensor forward(const DeviceBatch& batch);
  void backward();
  void reduce_gradients();
  void update_weights();

  Gpt& model_;
  Optimizer& optimizer_;
  BatchFeed& feed_;
  PhaseRecorder& phases_;
  Communicator& communicator_;
  std::int64_t micro_batches_;
  MicroStep micro_step_;
  CapturedGraph once_a_step_;
  bool fake_quant_ = false;
  double clip_norm_ = 0;
  at::Tensor numbers_;                            // [2] fp32: mean loss, rank 0's clock_ms
  at::Tensor lr_scale_, momentum_, norm_, skip_;  // [] fp32
};

}  // namespace tg
