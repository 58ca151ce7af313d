#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// Returns the row of the bigram table for each position: h_0 = rows − 1, then h_t = ((36313·x_t)
// xor (27191·x_{t−1})) mod (rows − 1) in wrapping int32 arithmetic, with Python's modulo (never
// negative). ids [B, T] int64 → [B, T] int64. `ends` [B, T] int32: for each token, the position in
// its row at which its document ends; each document begins with h_0. Undefined: each row is one
// document.
at::Tensor bigram_hash(const at::Tensor& ids_bt, std::int64_t rows, const at::Tensor& ends_bt = {});

// bigram_hash() of whole rows as a script computes it that overwrites x_0 with h_0 before it reads
// it: h_1 hashes rows − 1 in the place of x_0.
at::Tensor bigram_hash_in_place(const at::Tensor& ids_bt, std::int64_t rows);

// Returns the row of a table of signs for each position: s_0 = 0, then s_t = (x_t xor x_{t−1}) mod
// rows. ids [B, T] int64 → [B, T] int64.
at::Tensor bigram_sign_rows(const at::Tensor& ids_bt, std::int64_t rows);

}  // namespace tg
