#pragma once

namespace tg {

// Returns whether the GPU that was current at the first call has FP8 tensor cores: compute
// capability 8.9 or more.
bool has_fp8_tensor_cores();

}  // namespace tg
