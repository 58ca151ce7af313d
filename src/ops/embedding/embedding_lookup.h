#pragma once
#include <ATen/ATen.h>

namespace tg {

// y = table[ids]. table [V, D], ids [...] int64 in [0, V) → [..., D] in the table's dtype. The
// table's gradient is embedding_gradient's.
at::Tensor embedding_lookup(const at::Tensor& table_vd, const at::Tensor& ids);

// The gradient of a table of `vocab` rows from that of its looked up rows, dy [..., D] at ids
// [...]: row v is the sum of dy over the places where id v stands, zero where there is none. [V, D]
// in dy's dtype; every sum is taken in fp32 and in one fixed order.
at::Tensor embedding_gradient(const at::Tensor& dy, const at::Tensor& ids, std::int64_t vocab);

}  // namespace tg
