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
  auto x = embedding_lookup(of.table_vd, of.ids_bt, of.table_gradient_vd).to(dtype_of_result(of));
  if (of.bigram_btd.defined()) x = x + of.bigram_btd * of.bigram_scale.to(x.scalar_type());
  if (of.gated_smear.defined()) x = gated_smear(x, of.ids_bt, of.gated_smear);
  x = rms_norm(x, of.channels);
  return of.smear_gate_d.defined() ? smear(x, of.smear_gate_d, of.document_ends_bt) : x;
}

bool fp32_or_none(const at::Tensor& x) {
  return !x.defined() || x.scalar_type() == at::kFloat;
}

bool supported(const SmearGate& gate) {
  return !gate.defined() ||
         (fp32_or_none(gate.weight_1w) && gate.weight_1w.size(1) <= cuda::kMaxGateWindow);
}

bool supported(const TokenEmbedding& of) {
  const auto& table = of.table_vd;
  const auto dtype = dtype_of_result(of);
  const auto width = table.size(1);
  return use_kernels(table) && width * at::elementSize(dtype) % 16 == 0 &&
         width <= cuda::kMaxTokenWidth && of.ids_bt.numel() > 0 && fp32_or_none(of.bigram_scale) &&
         fp32_or_none(of.smear_gate_d) && supported(of.gated_smear) &&
         (!of.bigram_btd.defined() || of.bigram_btd.scalar_type() == dtype);
}

cuda::TokenEmbeddingArgs rows_of(const TokenEmbedding& of) {
  const auto& gate = of.gated_smear;
  return {.table = const_data(of.table_vd),
          .ids = of.ids_bt.const_data_ptr<std::int64_t>(),
          .bigram = const_data(of.bigram_btd),
          .bigram_scale = const_fp32_data(of.bigram_scale),
          .gate = const_fp32_data(of.smear_gate_d),
          .smear_weight = const_fp32_data(gate.weight_1w),
          .smear_lambda = const_fp32_data(gate.lambda_1),
          .document_ends = of.document_ends_bt.defined()
                               ? of.document_ends_bt.const_data_ptr<std::int32_t>()
                               : nullptr,
          .bos_id = gate.bos_id,
          .window = gate.defined() ? static_cast<int>(gate.weight_1w.size(1)) : 0,
          .batch = of.ids_bt.numel() / of.ids_bt.size(-1),
          .length = of.ids_bt.size(-1),
          .width = static_cast<int>(of.table_vd.size(1)),
          .channels = static_cast<int>(of.channels == 0 ? of.table_vd.size(1) : of.channels),
          .dtype = dtype_of(of.table_vd)};
}

struct FusedTokenEmbedding : torch::autograd::Function<FusedTokenEmbedding> {
  static TokenEmbedding inputs_of(const variable_list& saved, std::int64_t channels,
                                  std::int64_t bos_id) {
    return {.table_vd = saved[0],
            .ids_bt = saved[1],
            .bigram_btd = saved[2],
            .bigram_scale = saved[3],
            .smear_gate_d = saved[4],
            .channels = channels,
            .gated_smear = {saved[5], saved[6], bos_id},
            .document_ends_bt = saved[7]};
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& given_table,
                            const at::Tensor& ids, const OptionalTensor& bigram,
                            const OptionalTensor& scale, const OptionalTensor& gate,
                            const OptionalTensor& smear_weight, const OptionalTensor& smear_lambda,
                            std::int64_t channels, at::ScalarType dtype, std::int64_t bos_id,
                            const OptionalTensor& table_gradient,
                            const OptionalTensor& document_ends) {
    const auto table = given_table.to(dtype);
    const variable_list saved{table,
                              ids,
                              or_undefined(bigram),
                              or_undefined(scale),
                              or_undefined(gate),
                              or_undefined(smear_weight),
                              or_undefined(smear_lambda),
                              or_undefined(document_ends)};
    context->set_materialize_grads(false);
    context->save_for_backward(saved);
    context->saved_data["channels"] = channels;
    context->saved_data["bos_id"] = bos_id;
    context->saved_data["table_gradient"] = table_gradient;  // which others change meanwhile
    auto shape = ids.sizes().vec();
    shape.push_back(table.size(1));
    auto y = at::empty(shape, table.options());
    cuda::token_embedding_forward(rows_of(inputs_of(saved, channels, bos_id)), mutable_data(y),
                                  current_stream(y));
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    if (!upstream[0].defined()) return variable_list(12);
    const auto saved = context->get_saved_variables();
    const auto &table = saved[0], &ids = saved[1];
    auto& data = context->saved_data;
    const auto rows = rows_of(inputs_of(saved, data["channels"].toInt(), data["bos_id"].toInt()));
    const auto wanted =
        wanted_gradients<7>(*context, [&](std::size_t i) { return saved[i].defined(); });
    const auto needs = [&](std::size_t i) { return wanted[i]; };
    const auto dy = aligned_contiguous(upstream[0]);
    const auto fp32 = dy.options().dtype(at::kFloat);
    at::Tensor dsum, dbigram, partials, sums;
    if (needs(0)) dsum = at::empty_like(dy);
    if (needs(2)) dbigram = at::empty_like(dy);
    const auto columns = cuda::token_embedding_sums(rows);
    if (needs(3) || needs(4) || needs(5) || needs(6)) {
      partials = at::empty({cuda::token_embedding_blocks(rows), columns}, fp32);
      sums = at::empty({columns}, fp32);
    }
    cuda::token_embedding_backward(rows,
                                   {.dy = const_data(dy),
                                    .dsum = mutable_data(dsum),
                                    .dbigram = mutable_data(dbigram),
                                    .partials = mutable_fp32_data(partials),
                                    .sums = mutable_fp32_data(sums)},
                                   current_stream(dy));
    const auto sum = [&](std::size_t i, std::int64_t from) {
      return needs(i) ? sums.narrow(0, from, saved[i].numel()).view(saved[i].sizes())
                      : at::Tensor();
    };
    const at::Tensor none;
    at::Tensor dtable;
    if (needs(0)) {
      if (const auto sum_so_far = data["table_gradient"].toOptional<at::Tensor>())
        accumulate_embedding_gradient(*sum_so_far, dsum, ids);
      else
        dtable = embedding_gradient(dsum, ids, table.size(0));
    }
    return {dtable,
            none,
            dbigram,
            sum(3, columns - 1),
            sum(4, 0),
            sum(5, 0),
            sum(6, columns - 2),
            none,
            none,
            none,
            none,
            none};
  }
};

}  // namespace

at::Tensor token_embedding(const TokenEmbedding& of) {
  if (!supported(of)) return reference(of);
  const auto optional = [](const at::Tensor& x) { return optional_tensor(aligned_contiguous(x)); };
  // Bigrams and the gated smear know documents by themselves.
  const auto ends = of.smear_gate_d.defined() ? of.document_ends_bt : at::Tensor();
  return FusedTokenEmbedding::apply(
      aligned_contiguous(of.table_vd), of.ids_bt.contiguous(), optional(of.bigram_btd),
      optional(of.bigram_scale), optional(of.smear_gate_d), optional(of.gated_smear.weight_1w),
      optional(of.gated_smear.lambda_1), of.channels, dtype_of_result(of), of.gated_smear.bos_id,
      optional_tensor(of.table_gradient_vd), optional(ends));
}

}  // namespace tg
