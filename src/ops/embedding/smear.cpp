#include "ops/embedding/smear.h"

#include "ops/embedding/document_begins.h"

namespace tg {

at::Tensor smear(const at::Tensor& x_btd, const at::Tensor& gate_d, const at::Tensor& ends_bt) {
  const auto weight = gate_d.to(x_btd.scalar_type()).sigmoid();
  auto previous = at::constant_pad_nd(x_btd.narrow(1, 0, x_btd.size(1) - 1), {0, 0, 1, 0});
  if (ends_bt.defined()) previous = previous.masked_fill(document_begins(ends_bt).unsqueeze(-1), 0);
  return at::lerp(x_btd, previous, weight.expand_as(x_btd));
}

}  // namespace tg
