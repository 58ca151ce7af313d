#include "device/gpu.h"

namespace tg {

std::vector<std::string> gpu_names() {
  return {};
}
std::string cuda_version() {
  return "";
}
std::string cudnn_version() {
  return "";
}
std::string nccl_version() {
  return "";
}
void use_gpu(int) {}
void wait_for_gpu() {}
bool has_used_gpu() {
  return false;
}
bool has_bf16_tensor_cores() {
  return false;
}
void begin_gpu_range(const char*) {}
void end_gpu_range() {}

}  // namespace tg
