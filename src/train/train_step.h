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
  double clip_norm = 0.0;   // 0: no clipping
  double elapsed_ms = 0.0;  // of the training clock; rank 0's counts, as does its lr_scale
  bool fake_quant = false;
};

// One optimizer step: gradients of all micro-batches, summed over ranks and divided by their
// number; clip; update. Nothing here waits for the device. Collective.
class TrainStep {
 public:
  // micro_batches: of all ranks; graphs: see MicroStep.
  TrainStep(Gpt& model, Optimizer& optimizer, BatchFeed& feed, PhaseRecorder& phases,
            Communicator& communicator, std::int64_t micro_batches, at::Device device, bool graphs)
      : model_(model),
        optimizer_(optimizer),
        feed_(feed),
        phases_(phases),
        communicator_(communicator),
        micro_batches_(micro_batches),
        micro_step_(model, 1.0 / static_cast<double>(micro_batches), graphs && device.is_cuda()),
        device_(device) {}

  // → [5] fp32 on the device: the mean loss; the gradients' global norm before clipping; 1 where
  // one of them is not finite, and then weights and optimizer state stay as they are; rank 0's
  // lr_scale and elapsed_ms.
  at::Tensor run(const StepPlan& plan);

 private:
  void refresh_weights(bool fake_quant);
  at::Tensor accumulate_gradients();
  DeviceBatch next_batch();
  at::Tensor forward(const DeviceBatch& batch);
  void backward();

  Gpt& model_;
  Optimizer& optimizer_;
  BatchFeed& feed_;
  PhaseRecorder& phases_;
  Communicator& communicator_;
  std::int64_t micro_batches_;
  MicroStep micro_step_;
  bool fake_quant_ = false;
  at::Device device_;
};

}  // namespace tg
