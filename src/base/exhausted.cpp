#include "base/exhausted.h"

#include <new>
#include <system_error>

namespace tg {

namespace {

constexpr std::string_view kOutOfMemory[] = {
    "not enough memory",  // LibTorch's host allocator has no exception type of its own
    "can't allocate memory",
    "Cannot allocate memory",  // ENOMEM
    "CUDA out of memory",      // LibTorch's device allocator
    "out of memory",           // cudaErrorMemoryAllocation, also in "Cuda failure 2 '…'" of NCCL
    "CUDA_ERROR_OUT_OF_MEMORY",
    "_STATUS_ALLOC_FAILED",   // cuBLAS, cuDNN, cuSPARSE
    "_ALLOCATION_FAILED",     // cuDNN 9
    "Failed to CUDA calloc",  // NCCL
    "Failed to CUDA host alloc",
    "std::bad_alloc"};

}  // namespace

std::string_view out_of_memory_line(const std::exception& error) {
  const std::string_view text(error.what());
  for (const auto words : kOutOfMemory) {
    const auto found = text.find(words);
    if (found == std::string_view::npos) continue;
    const auto begin = text.rfind('\n', found) + 1;  // npos + 1: the first line
    return text.substr(begin, text.find('\n', found) - begin);
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "std::bad_alloc";
  return {};
}

bool is_out_of_threads(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  return system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
}

}  // namespace tg
