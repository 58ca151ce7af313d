#include "device/stream.h"

#include <c10/cuda/CUDAStream.h>

namespace tg {

cuda::Stream current_stream(const at::Tensor& x) {
  return c10::cuda::getCurrentCUDAStream(x.device().index());
}
bool is_on_gpu(const at::Tensor& x) {
  return x.is_cuda();
}

}  // namespace tg
