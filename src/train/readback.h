#pragma once
#include <ATen/ATen.h>

#include "device/event.h"

namespace tg {

// Asynchronous device-to-host copy of a step's metrics. It is queued after the step's work, so that
// the host can launch the next step before it waits for this one.
class Readback {
 public:
  // `values`: [n] on any device.
  explicit Readback(const at::Tensor& values) : event_(values.device().type()) {
    if (values.is_cpu()) {
      host_ = values.clone();
      return;
    }
    host_ = at::empty(values.sizes(), values.options().device(at::kCPU).pinned_memory(true));
    host_.copy_(values, /*non_blocking=*/true);
    event_.record(compute_stream(values.device()));
  }
  // Waits for the copy and returns it, [n] on the CPU.
  const at::Tensor& wait() {
    event_.synchronize();  // returns at once if nothing was recorded
    return host_;
  }

 private:
  at::Tensor host_;
  c10::Event event_;
};

}  // namespace tg
