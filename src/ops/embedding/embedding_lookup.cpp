#include "ops/embedding/embedding_lookup.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/embedding/embedding_gradient_kernel.h"
#include "ops/kernels.h"

namespace tg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct EmbeddingLookup : torch::autograd::Function<EmbeddingLookup> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& table,
                            const at::Tensor& ids) {
    context->set_materialize_grads(false);
    context->save_for_backward({ids});
    context->saved_data["vocab"] = table.size(0);
    return at::embedding(table, ids);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    if (!upstream[0].defined()) return {at::Tensor(), at::Tensor()};
    const auto ids = context->get_saved_variables()[0];
    const auto vocab = context->saved_data["vocab"].toInt();
    return {embedding_gradient(upstream[0], ids, vocab), at::Tensor()};
  }
};

// Rows must be multiples of 16 bytes.
bool supported(const at::Tensor& rows) {
  return use_kernels(rows) && rows.size(-1) * rows.element_size() % 16 == 0 && rows.numel() > 0;
}

}  // namespace

at::Tensor embedding_lookup(const at::Tensor& table_vd, const at::Tensor& ids) {
  return supported(table_vd) ? EmbeddingLookup::apply(table_vd, ids) : at::embedding(table_vd, ids);
}

at::Tensor embedding_gradient(const at::Tensor& dy, const at::Tensor& ids, std::int64_t vocab) {
  if (supported(dy)) {
    const auto rows = dy.contiguous();
    const auto width = dy.size(-1), count = ids.numel();
    // 32-bit keys: half the radix sort passes of 64-bit ones.
    const auto [sorted, order] = at::sort(ids.flatten().to(at::kInt), /*stable=*/true, /*dim=*/0,
                                          /*descending=*/false);
    const auto fp32 = dy.options().dtype(at::kFloat);
    auto gradient = at::zeros({vocab, width}, fp32);
    auto partials = at::empty({cuda::embedding_partial_rows(count), width}, fp32);
    cuda::embedding_gradient({.rows = const_data(rows),
                              .ids = sorted.const_data_ptr<std::int32_t>(),
                              .order = order.const_data_ptr<std::int64_t>(),
                              .count = count,
                              .width = static_cast<int>(width),
                              .dtype = dtype_of(rows)},
                             mutable_fp32_data(partials), mutable_fp32_data(gradient),
                             current_stream(rows));
    return gradient;
  }
  const auto sum_dtype = dy.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::embedding_dense_backward(dy.to(sum_dtype), ids, vocab, /*padding_idx=*/-1,
                                      /*scale_grad_by_freq=*/false);
}

}  // namespace tg
