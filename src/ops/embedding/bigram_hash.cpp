#include "ops/embedding/bigram_hash.h"

#include "ops/attention/documents.h"

namespace tg {

namespace {

// Wraps 64-bit values to int32 (two's complement), as an overflowing int32 multiplication does.
at::Tensor wrap_int32(const at::Tensor& value) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 31;
  return (value + kHalf).bitwise_and(2 * kHalf - 1) - kHalf;
}

// h of ids [B, T], where `before` [B, T − 1] is read as x_{t−1} for t ≥ 1.
at::Tensor hash_rows(const at::Tensor& ids, const at::Tensor& before, std::int64_t rows) {
  const auto current = wrap_int32(ids.narrow(1, 1, before.size(1)) * 36313);
  const auto hash = current.bitwise_xor(wrap_int32(before * 27191)).remainder(rows - 1);
  return at::constant_pad_nd(hash, {1, 0}, rows - 1);
}

}  // namespace

at::Tensor bigram_hash(const at::Tensor& ids_bt, std::int64_t rows, const at::Tensor& ends_bt) {
  const auto rows_bt = hash_rows(ids_bt, ids_bt.narrow(1, 0, ids_bt.size(1) - 1), rows);
  return ends_bt.defined() ? rows_bt.masked_fill(document_begins(ends_bt), rows - 1) : rows_bt;
}

at::Tensor bigram_hash_in_place(const at::Tensor& ids_bt, std::int64_t rows) {
  const auto written = ids_bt.clone();
  written.select(1, 0).fill_(rows - 1);
  return hash_rows(ids_bt, written.narrow(1, 0, ids_bt.size(1) - 1), rows);
}

at::Tensor bigram_sign_rows(const at::Tensor& ids_bt, std::int64_t rows) {
  const auto later = ids_bt.size(1) - 1;
  const auto pairs = ids_bt.narrow(1, 1, later).bitwise_xor(ids_bt.narrow(1, 0, later));
  return at::constant_pad_nd(pairs.remainder(rows), {1, 0}, 0);
}

}  // namespace tg
