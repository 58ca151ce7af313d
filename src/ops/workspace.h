#pragma once
#include <cstdint>
#include <functional>

namespace tg::cuda {

// Allocates a launcher's workspace of `count` fp32 elements, 16-byte aligned, for the kernels that
// it launches. Each launcher calls it at most once.
using Workspace = std::function<float*(std::int64_t count)>;

}  // namespace tg::cuda
