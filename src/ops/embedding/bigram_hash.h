#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// The row of the bigram table for each position: h_0 = rows − 1, then
// h_t = ((36313·x_t) xor (27191·x_{t−1})) mod (rows − 1) on 32-bit integers that wrap, with the
// modulo of Python (never negative). Row starts alone reset it. ids [B, T] int64 → [B, T] int64.
at::Tensor bigram_hash(const at::Tensor& ids_bt, std::int64_t rows);

}  // namespace tg
