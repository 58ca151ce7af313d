#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <memory>

namespace tg {

// The order of ids that tables' gradients on a GPU sum in, ascending; equal ids keep their order.
struct SortedIds {
  at::Tensor ids, positions;  // [count] int32, int64
};
// Sorts at the first call; lookups of the same ids in several tables share one.
class IdOrder {
 public:
  const SortedIds& of(const at::Tensor& ids);

 private:
  SortedIds sorted_;
};

// Returns table[ids]: table [V, D], ids [...] int64 in [0, V) → [..., D] in the table's dtype. The
// table's gradient is embedding_gradient(). With `gradient`, backward calls
// accumulate_embedding_gradient() on it, and autograd gets no gradient for the table. `order`: of
// these ids; null: its own.
at::Tensor embedding_lookup(const at::Tensor& table_vd, const at::Tensor& ids,
                            const at::Tensor& gradient = {}, std::shared_ptr<IdOrder> order = {});

// Computes the gradient [V, D] of a table of `vocab` rows, in fp32 (fp64 for fp64), from the
// gradient dy [..., D] of the rows looked up at ids [...]: row v is the sum of dy over the
// positions with id v, zero if there are none. The summation order on a GPU is fixed.
at::Tensor embedding_gradient(const at::Tensor& dy, const at::Tensor& ids, std::int64_t vocab,
                              IdOrder* order = nullptr);
// Adds embedding_gradient() to `gradient` [at least vocab, D], contiguous, in fp32 (fp64 for fp64).
// On a GPU only rows whose ids occur are accessed.
void accumulate_embedding_gradient(const at::Tensor& gradient, const at::Tensor& dy,
                                   const at::Tensor& ids, IdOrder* order = nullptr);

}  // namespace tg
