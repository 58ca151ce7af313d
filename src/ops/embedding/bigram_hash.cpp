#include "ops/embedding/bigram_hash.h"

#include "ops/embedding/document_begins.h"

namespace tg {

namespace {

// Wraps 64-bit values to int32 (two's complement), as an overflowing int32 multiplication does.
at::Tensor wrap_int32(const at::Tensor& value) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 31;
  return (value + kHalf).bitwise_and(2 * kHalf - 1) - kHalf;
}

}  // namespace

at::Tensor bigram_hash(const at::Tensor& ids_bt, std::int64_t rows, const at::Tensor& ends_bt) {
  const auto length = ids_bt.size(1);
  const auto current = wrap_int32(ids_bt.narrow(1, 1, length - 1) * 36313);
  const auto previous = wrap_int32(ids_bt.narrow(1, 0, length - 1) * 27191);
  const auto hash = current.bitwise_xor(previous).remainder(rows - 1);
  const auto rows_bt = at::constant_pad_nd(hash, {1, 0}, rows - 1);
  return ends_bt.defined() ? rows_bt.masked_fill(document_begins(ends_bt), rows - 1) : rows_bt;
}

}  // namespace tg
