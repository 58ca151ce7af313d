#pragma once
#include "data/feeder.h"
#include "device/captured_graph.h"
#include "model/gpt.h"

namespace tg {

// A model's loss of one batch after another, without gradients. Batches of the first one's shape
// are replayed with `graphs`, see CapturedGraph; others run eagerly.
class BatchLoss {
 public:
  BatchLoss(at::Device device, bool graphs);

  // → mean over the batch [] fp32, valid until any graph is replayed. `model` must outlive this.
  at::Tensor operator()(const Gpt& model, const DeviceBatch& batch);

 private:
  // Makes room for batches like this one.
  void hold(const DeviceBatch& batch);

  const Gpt* model_ = nullptr;
  std::int64_t stage_ = 0;
  DeviceBatch batch_;  // where the captured graph reads it
  at::Tensor loss_;
  CapturedGraph pass_;
};

}  // namespace tg
