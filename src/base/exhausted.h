#pragma once
#include <exception>
#include <string_view>

namespace tg {

// The line of error.what() that reports exhausted memory of the host or of a device, as the
// standard library, LibTorch, CUDA, cuBLAS, cuDNN or NCCL word it; empty for other errors. A view
// into error.what().
std::string_view out_of_memory_line(const std::exception& error);

// The system refused to start another thread.
bool is_out_of_threads(const std::exception& error);

}  // namespace tg
