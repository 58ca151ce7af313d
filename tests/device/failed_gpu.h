#pragma once
// Tests of a program's messages when its GPU fails. Each death test re-executes the process
// (death_test_style "threadsafe"), because a forked child could not use the GPU.
#include <ATen/ATen.h>

namespace tg::test {

// Makes an assertion fail in a kernel: some later call fails, and then all further calls of the
// process.
inline void break_gpu() {
  at::_assert_async(at::zeros({1}, at::device(at::kCUDA)));
}

// Matches the whole standard error: one error line, after the assertion's and LibTorch's warnings
// about what it could not free.
inline constexpr const char* kOneInternalError =
    "^(([^E\n][^\n]*)?\n)*ERROR exit=70 rank=0: [^\n]+\n$";

}  // namespace tg::test
