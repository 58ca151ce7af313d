#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// An asynchronous copy of a step's metrics to the host. It is queued behind the step's own work, so
// that the host may launch the next step first and then wait for this one alone.
class Readback {
 public:
  // values [n] on any device.
  explicit Readback(const at::Tensor& values);
  // Waits for the copy → [n] on the CPU.
  const at::Tensor& wait();

 private:
  at::Tensor host_;
  c10::Event event_;
};

}  // namespace tg
