#pragma once
#include <ATen/ATen.h>

namespace tg {

// Asynchronous device-to-host copy of a step's metrics. It is queued after the step's work, so that
// the host can launch the next step before it waits for this one.
class Readback {
 public:
  // `values`: [n] on any device.
  explicit Readback(const at::Tensor& values);
  // Waits for the copy and returns it, [n] on the CPU.
  const at::Tensor& wait();

 private:
  at::Tensor host_;
  c10::Event event_;
};

}  // namespace tg
