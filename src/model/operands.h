#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>

namespace tg {

// What a pass multiplies by the matrices: of a block's visit Q, K and V together, the output
// projection, W_up and W_down, and of the whole pass the head.
enum class Operand { qkv, out, up, down, head };

// Is called with each operand of a pass, [B, T, channels] in the compute dtype and with the padding
// of ComputeSizes, once it is computed; `block`: whose matrices these are, of the head -1.
using OperandObserver =
    std::function<void(Operand operand, std::int64_t block, const at::Tensor& rows)>;

}  // namespace tg
