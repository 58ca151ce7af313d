#include "ops/loss/loss_targets.h"

#include <vector>

namespace tg {

LossTargets with_further_targets(const at::Tensor& y_bt, const FurtherTargets& further) {
  const auto length = y_bt.size(1), next = further.weights.size(0) - 1;
  std::vector<at::Tensor> ids, weights;
  const auto add = [&](const at::Tensor& id, const at::Tensor& weight) {
    ids.push_back(id.flatten());
    weights.push_back(weight.flatten());
  };
  for (std::int64_t k = 0; k < next; ++k) {
    const auto in_row = at::arange(length, y_bt.options()).lt(length - k);
    add(y_bt.roll(-k, 1), (in_row * further.weights[k]).expand_as(y_bt));
  }
  auto mass = further.weights.narrow(0, 0, next).sum().expand({y_bt.numel()}).contiguous();
  if (further.prefixes.defined()) {
    const auto prefix = further.prefixes.index_select(0, y_bt.flatten());
    const auto weight = prefix.ge(0) * further.weights[next];
    add(prefix, weight);
    mass = mass + weight;
  }
  return {at::stack(ids, 1), at::stack(weights, 1), mass};
}

}  // namespace tg
