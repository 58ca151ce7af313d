#include "ops/embedding/embedding_lookup.h"

#include <torch/csrc/autograd/custom_function.h>

#include <tuple>

#include "ops/embedding/embedding_kernel.h"
#include "ops/kernels.h"
#include "ops/operands.h"

namespace tg {

namespace {

struct EmbeddingLookup : torch::autograd::Function<EmbeddingLookup> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& table,
                            const at::Tensor& ids, const OptionalTensor& gradient,
                            const std::shared_ptr<IdOrder>& order) {
    context->set_materialize_grads(false);
    context->save_for_backward({ids});
    context->saved_data["vocab"] = table.size(0);
    context->saved_data["gradient"] =
        gradient;  // not through save_for_backward: it is modified in place
    context->saved_data["order"] = in_capsule(order);
    return at::embedding(table, ids);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto& dy = upstream[0];
    if (!dy.defined()) return variable_list(4);
    const auto ids = context->get_saved_variables()[0];
    const auto order = from_capsule<std::shared_ptr<IdOrder>>(context->saved_data["order"]);
    const at::Tensor none;
    if (const auto gradient = context->saved_data["gradient"].toOptional<at::Tensor>()) {
      accumulate_embedding_gradient(*gradient, dy, ids, order.get());
      return {none, none, none, none};
    }
    const auto vocab = context->saved_data["vocab"].toInt();
    return {embedding_gradient(dy, ids, vocab, order.get()), none, none, none};
  }
};

// Rows must be multiples of 16 bytes.
bool supported(const at::Tensor& rows) {
  return use_kernels(rows) && rows.size(-1) * rows.element_size() % 16 == 0 && rows.numel() > 0;
}

}  // namespace

const SortedIds& IdOrder::of(const at::Tensor& ids) {
  if (!sorted_.ids.defined()) {
    // 32-bit keys: half the radix sort passes of 64-bit ones.
    std::tie(sorted_.ids, sorted_.positions) =
        at::sort(ids.flatten().to(at::kInt), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  }
  return sorted_;
}

at::Tensor embedding_lookup(const at::Tensor& table_vd, const at::Tensor& ids,
                            const at::Tensor& gradient, std::shared_ptr<IdOrder> order) {
  return supported(table_vd) || gradient.defined()
             ? EmbeddingLookup::apply(table_vd, ids, optional_tensor(gradient), order)
             : at::embedding(table_vd, ids);
}

at::Tensor embedding_gradient(const at::Tensor& dy, const at::Tensor& ids, std::int64_t vocab,
                              IdOrder* order) {
  const auto sum_dtype = dy.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (!supported(dy)) {
    return at::embedding_dense_backward(dy.to(sum_dtype), ids, vocab, /*padding_idx=*/-1,
                                        /*scale_grad_by_freq=*/false);
  }
  const auto gradient = at::zeros({vocab, dy.size(-1)}, dy.options().dtype(sum_dtype));
  accumulate_embedding_gradient(gradient, dy, ids, order);
  return gradient;
}

void accumulate_embedding_gradient(const at::Tensor& gradient, const at::Tensor& dy,
                                   const at::Tensor& ids, IdOrder* order) {
  if (!supported(dy)) {
    at::Tensor(gradient).add_(embedding_gradient(dy, ids, gradient.size(0)));
    return;
  }
  const auto rows = dy.contiguous();
  IdOrder own;
  const auto& sorted = (order == nullptr ? own : *order).of(ids);
  cuda::embedding_gradient({.rows = const_data(rows),
                            .ids = sorted.ids.const_data_ptr<std::int32_t>(),
                            .order = sorted.positions.const_data_ptr<std::int64_t>(),
                            .count = ids.numel(),
                            .width = static_cast<int>(dy.size(-1)),
                            .dtype = dtype_of(rows)},
                           mutable_fp32_data(gradient), workspace_like(gradient),
                           current_stream(rows));
}

}  // namespace tg
