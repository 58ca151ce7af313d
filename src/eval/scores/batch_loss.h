#pragma once
#include <ATen/ATen.h>

#include "data/feeder.h"
#include "device/captured_graph.h"
#include "model/gpt.h"

namespace tg {

// Computes a model's loss for a series of batches, without gradients. With `graphs`, batches of the
// first batch's shape replay a captured graph, see CapturedGraph; others run eagerly. With a
// `mask`, a table of masked_softcap_nll() on the device, tokens that it names are out of the
// softmax.
class BatchLoss {
 public:
  BatchLoss(at::Device device, bool graphs, const at::Tensor& mask = {});

  struct Losses {
    at::Tensor loss;        // fp32
    at::Tensor unmasked{};  // without the mask; undefined if there is none
  };
  // Returns means over the batch [], valid until any graph is replayed. `model` must outlive this
  // object.
  Losses operator()(const Gpt& model, const DeviceBatch& batch);
  // Returns the same without a graph.
  Losses eager(const Gpt& model, const DeviceBatch& batch) const;
  // Returns the losses of the targets [B, T].
  Losses of_tokens(const Gpt& model, const DeviceBatch& batch) const;

  bool masks() const { return mask_.defined(); }

 private:
  // Allocates static inputs for batches like this one.
  void hold(const DeviceBatch& batch);

  const at::Tensor mask_;
  const Gpt* model_ = nullptr;
  std::int64_t stage_ = 0;
  DeviceBatch batch_;  // static input of the captured graph
  Losses losses_;
  CapturedGraph pass_;
};

}  // namespace tg
