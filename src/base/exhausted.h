#pragma once
#include <exception>
#include <string_view>

namespace tg {

// The line of an error's message which says that memory is exhausted, on the host or on a device:
// in the words of the standard library, LibTorch, CUDA, cuBLAS, cuDNN or NCCL. Empty: it is another
// error. The view ends with the error.
std::string_view out_of_memory_line(const std::exception& error);

// The system would not start another thread.
bool is_out_of_threads(const std::exception& error);

}  // namespace tg
