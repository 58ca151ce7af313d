#pragma once
#include <exception>
#include <string_view>

namespace tg {

// Returns the line of error.what() that reports exhausted host or device memory, in the wording of
// the standard library, LibTorch, CUDA, cuBLAS, cuDNN or NCCL; empty for other errors. The result
// is a view into error.what().
std::string_view out_of_memory_line(const std::exception& error);

// Returns whether the system refused to start another thread.
bool is_out_of_threads(const std::exception& error);

}  // namespace tg
