#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// The numbers of one step on their way to the host. The copy is queued behind the step's own work,
// so that the host may launch the next step first and then wait for this one alone.
class Readback {
 public:
  // values [n] on any device.
  explicit Readback(const at::Tensor& values);
  // Waits until they are here → [n] on the CPU.
  const at::Tensor& wait();

 private:
  at::Tensor host_;
  c10::Event event_;
};

}  // namespace tg
