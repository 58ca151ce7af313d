#include "train/readback.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace tg {

Readback::Readback(const at::Tensor& values) : event_(values.device().type()) {
  if (values.is_cpu()) {
    host_ = values.clone();
    return;
  }
  host_ = at::empty(values.sizes(), values.options().device(at::kCPU).pinned_memory(true));
  host_.copy_(values, /*non_blocking=*/true);
  event_.record(c10::impl::VirtualGuardImpl(values.device().type()).getStream(values.device()));
}

const at::Tensor& Readback::wait() {
  event_.synchronize();  // returns at once if nothing was recorded
  return host_;
}

}  // namespace tg
