#include "ops/embedding/token_embedding.h"

#include <torch/csrc/autograd/custom_function.h>

#include <array>

#include "ops/embedding/embedding_lookup.h"
#include "ops/embedding/smear.h"
#include "ops/embedding/token_embedding_kernel.h"
#include "ops/kernels.h"
#include "ops/norm/rms_norm.h"
#include "ops/operands.h"

namespace tg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::ScalarType dtype_of_result(const TokenEmbedding& of) {
  return of.dtype.value_or(of.table_vd.scalar_type());
}

at::Tensor reference(const TokenEmbedding& of) {
  auto x = embedding_lookup(of.table_vd, of.ids_bt).to(dtype_of_result(of));
  if (of.bigram_btd.defined()) x = x + of.bigram_btd * of.bigram_scale.to(x.scalar_type());
  x = rms_norm(x, of.channels);
  return of.smear_gate_d.defined() ? smear(x, of.smear_gate_d) : x;
}

bool supported(const TokenEmbedding& of) {
  const auto fp32_or_none = [](const at::Tensor& x) {
    return !x.defined() || x.scalar_type() == at::kFloat;
  };
  const auto& table = of.table_vd;
  const auto dtype = dtype_of_result(of);
  const auto width = table.size(1);
  return use_kernels(table) && width * at::elementSize(dtype) % 16 == 0 &&
         width <= cuda::kMaxTokenWidth && of.ids_bt.numel() > 0 && fp32_or_none(of.bigram_scale) &&
         fp32_or_none(of.smear_gate_d) &&
         (!of.bigram_btd.defined() || of.bigram_btd.scalar_type() == dtype);
}

cuda::TokenEmbeddingArgs rows_of(const TokenEmbedding& of) {
  return {.table = const_data(of.table_vd),
          .ids = of.ids_bt.const_data_ptr<std::int64_t>(),
          .bigram = const_data(of.bigram_btd),
          .bigram_scale = const_fp32_data(of.bigram_scale),
          .gate = const_fp32_data(of.smear_gate_d),
          .batch = of.ids_bt.numel() / of.ids_bt.size(-1),
          .length = of.ids_bt.size(-1),
          .width = static_cast<int>(of.table_vd.size(1)),
          .channels = static_cast<int>(of.channels == 0 ? of.table_vd.size(1) : of.channels),
          .dtype = dtype_of(of.table_vd)};
}

struct FusedTokenEmbedding : torch::autograd::Function<FusedTokenEmbedding> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given_table,
                            const at::Tensor& ids, const OptionalTensor& given_bigram,
                            const OptionalTensor& given_scale, const OptionalTensor& given_gate,
                            std::int64_t channels, at::ScalarType dtype) {
    const auto table = given_table.to(dtype);
    const auto bigram = or_undefined(given_bigram), scale = or_undefined(given_scale),
               gate = or_undefined(given_gate);
    context->set_materialize_grads(false);
    context->save_for_backward({table, ids, bigram, scale, gate});
    context->saved_data["channels"] = channels;
    auto shape = ids.sizes().vec();
    shape.push_back(table.size(1));
    auto y = at::empty(shape, table.options());
    cuda::token_embedding_forward(rows_of({table, ids, bigram, scale, gate, channels}),
                                  mutable_data(y), current_stream(y));
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    if (!upstream[0].defined()) return variable_list(7);
    const auto saved = context->get_saved_variables();
    const auto &table = saved[0], &ids = saved[1];
    const auto rows = rows_of(
        {table, ids, saved[2], saved[3], saved[4], context->saved_data["channels"].toInt()});
    const auto wanted =
        wanted_gradients<5>(*context, [&](std::size_t i) { return saved[i].defined(); });
    const auto needs = [&](std::size_t i) { return wanted[i]; };
    const auto dy = aligned_contiguous(upstream[0]);
    const auto fp32 = dy.options().dtype(at::kFloat);
    at::Tensor dsum, dbigram, partials, sums;
    if (needs(0)) dsum = at::empty_like(dy);
    if (needs(2)) dbigram = at::empty_like(dy);
    if (needs(3) || needs(4)) {
      partials = at::empty({cuda::token_embedding_blocks(rows), rows.width + 1}, fp32);
      sums = at::empty({rows.width + 1}, fp32);
    }
    cuda::token_embedding_backward(rows,
                                   {.dy = const_data(dy),
                                    .dsum = mutable_data(dsum),
                                    .dbigram = mutable_data(dbigram),
                                    .partials = mutable_fp32_data(partials),
                                    .sums = mutable_fp32_data(sums)},
                                   current_stream(dy));
    return {needs(0) ? embedding_gradient(dsum, ids, table.size(0)) : dsum,
            at::Tensor(),
            dbigram,
            needs(3) ? sums.select(0, rows.width) : at::Tensor(),
            needs(4) ? sums.narrow(0, 0, rows.width) : at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor token_embedding(const TokenEmbedding& of) {
  if (supported(of)) {
    return FusedTokenEmbedding::apply(aligned_contiguous(of.table_vd), of.ids_bt.contiguous(),
                                      optional_tensor(aligned_contiguous(of.bigram_btd)),
                                      optional_tensor(aligned_contiguous(of.bigram_scale)),
                                      optional_tensor(aligned_contiguous(of.smear_gate_d)),
                                      of.channels, dtype_of_result(of));
  }
  return reference(of);
}

}  // namespace tg
