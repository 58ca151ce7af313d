#include "ops/fused.h"

#include "device/gpu.h"
#include "device/launch.h"
#include "device/stream.h"

namespace tg {

namespace {
bool fused_on = true, hopper_on = true;
}

const char* kernel_name(Kernel kernel) {
  constexpr const char* kNames[] = {"aten", "cuda", "cuda_fp8", "hopper", "hopper_fp8"};
  return kNames[static_cast<std::size_t>(kernel)];
}

void set_fused(bool on) {
  fused_on = on;
}

void set_hopper(bool on) {
  hopper_on = on;
}

bool use_kernels(const at::Tensor& x) {
  const auto dtype = x.scalar_type();
  return fused_on && is_on_gpu(x) &&
         (dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf);
}

bool has_hopper_kernels() {
  return hopper_on && HOPPER_BUILT && cuda::is_hopper();
}

bool use_hopper_kernels(const at::Tensor& x) {
  return use_kernels(x) && x.scalar_type() != at::kFloat && has_hopper_kernels();
}

bool use_fp8_gemms(const at::Tensor& x) {
  return use_kernels(x) && x.scalar_type() == at::kBFloat16 && has_fp8_tensor_cores();
}

}  // namespace tg
