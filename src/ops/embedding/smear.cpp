#include "ops/embedding/smear.h"

#include "ops/attention/documents.h"

namespace tg {

at::Tensor smear(const at::Tensor& x_btd, const at::Tensor& gate_d, const at::Tensor& ends_bt) {
  const auto weight = gate_d.to(x_btd.scalar_type()).sigmoid();
  auto previous = at::constant_pad_nd(x_btd.narrow(1, 0, x_btd.size(1) - 1), {0, 0, 1, 0});
  if (ends_bt.defined()) previous = previous.masked_fill(document_begins(ends_bt).unsqueeze(-1), 0);
  return at::lerp(x_btd, previous, weight.expand_as(x_btd));
}

at::Tensor gated_smear(const at::Tensor& x_btd, const at::Tensor& ids_bt, const SmearGate& gate) {
  const auto weight = gate.weight_1w.to(x_btd.scalar_type());
  const auto window = x_btd.narrow(-1, 0, weight.size(1));
  const auto gate_value =
      at::matmul(window, weight.t()).sigmoid() * gate.lambda_1.to(x_btd.scalar_type());
  const auto previous = at::constant_pad_nd(x_btd.narrow(1, 0, x_btd.size(1) - 1), {0, 0, 1, 0});
  const auto in_document = ids_bt.ne(gate.bos_id).unsqueeze(-1);
  return x_btd + gate_value * previous * in_document;
}

}  // namespace tg
