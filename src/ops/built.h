#pragma once
// Where a program is built without CUDA, or for no Hopper GPU, CMake takes each folder's
// no_kernels.cpp or no_hopper.cpp in place of its kernels: the same functions, which nobody calls,
// since use_kernels() or use_hopper_kernels() (fused.h) is then false.
#include <cstdlib>

namespace tg {

bool hopper_built();

[[noreturn]] inline void not_built() {
  std::abort();
}

}  // namespace tg
