#include "comm/own_failure.h"

#include <c10/util/Exception.h>

#include <string_view>

#include "base/exhausted.h"

namespace tg {

namespace {

// LibTorch's name for an error of a CUDA call that NCCL made; NCCL's own errors have a type.
constexpr std::string_view kCudaErrorInNccl = "ncclUnhandledCudaError";

}  // namespace

bool is_own_failure(const std::exception& error) {
  return is_out_of_threads(error) || !out_of_memory_line(error).empty() ||
         dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr ||
         std::string_view(error.what()).find(kCudaErrorInNccl) != std::string_view::npos;
}

}  // namespace tg
