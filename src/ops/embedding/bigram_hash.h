#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// The row of the bigram table for each position: h_0 = rows − 1, then
// h_t = ((36313·x_t) xor (27191·x_{t−1})) mod (rows − 1) on 32-bit integers that wrap, with the
// modulo of Python (never negative). ids [B, T] int64 → [B, T] int64. `ends` [B, T] int32: of a
// token, where in its row its document ends; each document begins with h_0. Undefined: row starts
// alone do.
at::Tensor bigram_hash(const at::Tensor& ids_bt, std::int64_t rows, const at::Tensor& ends_bt = {});

}  // namespace tg
