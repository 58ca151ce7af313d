// Replaces device/stream: kernels get tensors on the CPU.
#include "device/stream.h"

namespace tg {

cuda::Stream current_stream(const at::Tensor&) {
  return nullptr;
}
bool is_on_gpu(const at::Tensor&) {
  return true;
}

}  // namespace tg
