#include "model/weights.h"

#include "ops/loss/linear_cross_entropy.h"
#include "ops/optim/add_and_clear.h"
#include "ops/quantize/fake_quant.h"

namespace tg {

WeightCopies::WeightCopies(const Plan& plan, const ParameterTable& table, const Numerics& numerics)
    : numerics_(numerics) {
  const at::NoGradGuard no_grad;
  const auto sizes = compute_sizes(plan.shape, numerics.padding, plan.rope_interleaved);
  const auto& matrices = plan.matrices;
  BlockWeights banks;
  banks.qkv = make_qkv(plan, table, sizes);
  banks.out = make_copy(source_of(table, matrices.out),
                        {matrices.out.count(), sizes.dim, plan.shape.heads * sizes.head_dim},
                        {2, plan.shape.heads, sizes.v_runs}, Kind::bank,
                        output_scales(plan, table, &BlockPlan::attn_scale));
  banks.up = make_copy(source_of(table, matrices.up),
                       {matrices.up.count(), sizes.hidden, sizes.dim}, {}, Kind::bank);
  banks.down =
      make_copy(source_of(table, matrices.down), {matrices.down.count(), sizes.dim, sizes.hidden},
                {}, Kind::bank, output_scales(plan, table, &BlockPlan::mlp_scale));
  for (std::int64_t i = 0; i < std::ssize(plan.blocks); ++i)
    blocks_.push_back(banks.of_block(matrices, i));
  if (plan.head.weight) {
    head_ = make_head(table[plan.head.weight], sizes);
  } else {
    head_ = make_tied_head(table[plan.embedding.tokens], sizes, plan.head.softcap);
    table_gradients_[plan.embedding.tokens.row] = head_.gradient;
  }
  for (const auto id : plan.embedding.summed_in_fp32) sum_in_fp32(id, table[id], sizes);
  fp8_ = Fp8Weights(plan, numerics_, banks, head_, {sizes.vocab, plan.head.softcap});
  for (const auto& head : plan.head.multi_token)
    mtp_heads_.push_back(make_head(table[head], sizes));
  stream_ = ResidualCoefficients(plan, table, sizes.dim);
  cast();
}

Weight WeightCopies::make_qkv(const Plan& plan, const ParameterTable& table,
                              const ComputeSizes& sizes) {
  const auto heads = plan.shape.heads, kv_heads = plan.shape.kv_heads;
  const auto queries = source_of(table, plan.matrices.queries);
  const std::vector<std::int64_t> shape{plan.matrices.queries.count(),
                                        (heads + 2 * kv_heads) * sizes.head_dim, sizes.dim};
  Weight qkv{at::zeros(shape, queries.value.options().dtype(numerics_.compute)), {}};
  if (queries.gradient.defined()) {
    qkv.gradient = at::zeros(shape, queries.gradient.options());
    gradient_buffers_.push_back(qkv.gradient);
  }
  // Copies into the rows of `count` heads from `head` on.
  const auto copy = [&](const WeightSource& from, std::int64_t head, std::int64_t count,
                        const std::vector<ChannelRun>& runs, const RowScales& scales = {}) {
    const auto rows = [&](const at::Tensor& x) {
      return x.defined() ? x.narrow(1, head * sizes.head_dim, count * sizes.head_dim) : x;
    };
    copy_into({rows(qkv.value), rows(qkv.gradient)}, from, {1, count, runs}, Kind::bank, scales);
  };
  const auto qk_scales = output_scales(plan, table, &BlockPlan::qk_scale);
  copy(queries, 0, heads, sizes.qk_runs, qk_scales);
  copy(source_of(table, plan.matrices.keys), heads, kv_heads, sizes.qk_runs, qk_scales);
  copy(source_of(table, plan.matrices.values), heads + kv_heads, kv_heads, sizes.v_runs,
       value_scales(plan, table));
  return qkv;
}

Weight WeightCopies::make_copy(const WeightSource& source, at::IntArrayRef sizes,
                               const CopyLayout& placement, Kind kind, const RowScales& scales) {
  const auto& parameter = source.value;
  Weight copy{at::zeros(sizes, parameter.options().dtype(numerics_.compute)), source.gradient};
  const bool padded = parameter.sizes() != sizes;
  if (padded && source.gradient.defined()) {
    copy.gradient = at::zeros(sizes, source.gradient.options());
    gradient_buffers_.push_back(copy.gradient);
  }
  copy_into({copy.value, padded ? copy.gradient : at::Tensor()}, source, placement, kind, scales);
  return copy;
}

// `target.gradient`: a buffer whose slices are added to the source's gradient, or undefined.
void WeightCopies::copy_into(const Weight& target, const WeightSource& source,
                             const CopyLayout& placement, Kind kind, const RowScales& scales) {
  copies_.push_back({source, target.value, placement, kind, scales});
  if (!target.gradient.defined()) return;
  for (const auto& slices : placed(source.gradient, target.gradient, placement))
    gradient_slices_.push_back(slices);
}

Weight WeightCopies::make_head(const at::Tensor& parameter, const ComputeSizes& sizes) {
  return make_copy(source_of(parameter), {sizes.vocab, sizes.dim}, {}, Kind::matrix);
}

void WeightCopies::sum_in_fp32(ParameterId id, const at::Tensor& table, const ComputeSizes& sizes) {
  const bool padded = table.size(1) != sizes.dim;
  if (!table.requires_grad() || table.element_size() != 2 || padded) return;
  const auto sum = at::zeros(table.sizes(), table.detach().options().dtype(at::kFloat));
  table_gradients_[id.row] = sum;
  table_sums_.emplace_back(source_of(table).gradient, sum);
}

Weight WeightCopies::make_tied_head(const at::Tensor& table, const ComputeSizes& sizes,
                                    const Softcap& softcap) {
  if (!table.requires_grad()) return {};
  const std::vector<std::int64_t> shape{sizes.vocab, sizes.dim};
  const bool is_table = table.sizes() == shape && table.scalar_type() == numerics_.compute;
  const auto value = is_table ? table.detach()
                              : at::zeros(shape, table.detach().options().dtype(numerics_.compute));
  if (!supports_fused_head(value, softcap)) return {};
  const auto source = source_of(table);
  const auto gradient = at::zeros(shape, value.options().dtype(at::kFloat));
  gradient_buffers_.push_back(gradient);
  for (const auto& slices : placed(source.gradient, gradient, {}))
    gradient_slices_.push_back(slices);
  if (!is_table) copy_into({value, {}}, source, {}, Kind::table);
  return {value, gradient};
}

at::Tensor WeightCopies::fake_quantized(const at::Tensor& parameter, Kind kind) const {
  // The reference implementation's QAT skips the banks and uses one level more (-32) than its
  // quantizer.
  const bool rounds =
      fake_quant_ && kind != Kind::table && !(kind == Kind::bank && numerics_.record_quirks);
  return rounds ? fake_quant(parameter, numerics_.record_quirks ? -32 : -31) : parameter;
}

void WeightCopies::cast() {
  const at::NoGradGuard no_grad;
  for (const auto& copy : copies_) {
    auto parameter = fake_quantized(copy.source.value, copy.kind);
    if (!copy.scales.empty()) parameter = parameter * copy.scales.columns();
    for (const auto& [from, to] : placed(parameter, copy.value, copy.placement)) to.copy_(from);
  }
  fp8_.round();
  stream_.make();
}

void WeightCopies::collect_gradients() {
  const at::NoGradGuard no_grad;
  for (const auto& [gradient, buffered] : gradient_slices_) gradient.add_(buffered);
  for (const auto& buffer : gradient_buffers_) buffer.zero_();
  for (const auto& [gradient, sum] : table_sums_) add_and_clear(gradient, sum);
  for (const auto& [source, value, placement, kind, scales] : copies_) {
    if (!scales.empty() && source.gradient.defined())
      scales.unscale(source.gradient, fake_quantized(source.value, kind));
  }
  stream_.collect_gradients();
}

WeightCopies WeightCopies::as_constants() const {
  auto constants = *this;
  constants.copies_.clear();
  constants.gradient_slices_.clear();
  constants.gradient_buffers_.clear();
  constants.table_sums_.clear();
  for (auto& block : constants.blocks_) block = block.as_constants();
  constants.head_ = head_.as_constants();
  constants.table_gradients_.clear();
  for (auto& head : constants.mtp_heads_) head = head.as_constants();
  constants.stream_ = stream_.as_constants();
  constants.fp8_ = {};
  return constants;
}

at::Tensor WeightCopies::small(const at::Tensor& parameter) const {
  return fake_quantized(parameter, Kind::matrix);
}

}  // namespace tg
