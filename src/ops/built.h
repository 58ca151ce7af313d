#pragma once
// In a build without CUDA, or without sm_90a, CMake replaces each folder's kernels by its
// no_kernels.cpp or no_hopper.cpp. These define the same functions as stubs that are never called,
// since use_kernels() or use_hopper_kernels() (fused.h) is then false.
#include <cstdlib>

namespace tg {

bool hopper_built();

[[noreturn]] inline void not_built() {
  std::abort();
}

}  // namespace tg
