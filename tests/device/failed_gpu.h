#pragma once
// Tests of what a program says when its GPU fails. Each death test is a process of its own that
// begins anew (death_test_style "threadsafe"): a fork could not use the GPU.
#include <ATen/ATen.h>

namespace tg::test {

// An assertion of a kernel fails: the GPU refuses its process everything else, beginning with some
// call after this one.
inline void break_gpu() {
  at::_assert_async(at::zeros({1}, at::device(at::kCUDA)));
}

// All of standard error: one error, behind the assertion and LibTorch's warnings of what it could
// not free.
inline constexpr const char* kOneInternalError =
    "^(([^E\n][^\n]*)?\n)*ERROR exit=70 rank=0: [^\n]+\n$";

}  // namespace tg::test
