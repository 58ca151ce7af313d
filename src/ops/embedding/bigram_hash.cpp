#include "ops/embedding/bigram_hash.h"

#include "ops/embedding/document_begins.h"

namespace tg {

namespace {

// Returns a 64-bit value as the 32-bit integer of its low bits, which is what a wrapping int32
// multiplication gives.
at::Tensor wrap_int32(const at::Tensor& value) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 31;
  return (value + kHalf).bitwise_and(2 * kHalf - 1) - kHalf;
}

}  // namespace

at::Tensor bigram_hash(const at::Tensor& ids_bt, std::int64_t rows, const at::Tensor& ends_bt) {
  const auto length = ids_bt.size(1);
  const auto now = wrap_int32(ids_bt.narrow(1, 1, length - 1) * 36313);
  const auto before = wrap_int32(ids_bt.narrow(1, 0, length - 1) * 27191);
  const auto hash = now.bitwise_xor(before).remainder(rows - 1);
  const auto of_rows = at::constant_pad_nd(hash, {1, 0}, rows - 1);
  return ends_bt.defined() ? of_rows.masked_fill(document_begins(ends_bt), rows - 1) : of_rows;
}

}  // namespace tg
