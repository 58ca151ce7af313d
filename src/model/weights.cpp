#include "model/weights.h"

#include "ops/loss/linear_cross_entropy.h"
#include "ops/quantize/fake_quant.h"

namespace tg {

namespace {

// Undefined where the parameter requires none, as for inference. Allocates the gradient if it is
// not yet there: a captured step needs a fixed address.
at::Tensor gradient_of(const at::Tensor& parameter) {
  if (!parameter.requires_grad()) return {};
  auto& gradient = at::Tensor(parameter).mutable_grad();
  if (!gradient.defined()) gradient = at::zeros_like(parameter.detach());
  return gradient;
}

// Of an undefined tensor: undefined.
at::Tensor rows_of(const at::Tensor& bank, std::int64_t first, std::int64_t count) {
  return bank.defined() ? bank.narrow(0, first, count) : bank;
}
Weight block_of(const Weight& bank, std::int64_t block) {
  return {bank.value[block], bank.gradient.defined() ? bank.gradient[block] : bank.gradient};
}
BlockWeights block_of(const BlockWeights& banks, std::int64_t block) {
  return {block_of(banks.qkv, block), block_of(banks.out, block), block_of(banks.up, block),
          block_of(banks.down, block)};
}

WeightSource source_of(const at::Tensor& parameter) {
  return {parameter.detach(), gradient_of(parameter)};
}
WeightSource source_of(const ParameterTable& table, const BlockMatrices& matrices) {
  const auto bank = source_of(table[matrices.bank]);
  const auto blocks = bank.value.size(0) / matrices.kinds, first = matrices.kind * blocks;
  return {rows_of(bank.value, first, blocks), rows_of(bank.gradient, first, blocks)};
}

RowScales output_scales(const Plan& plan, const ParameterTable& table,
                        ParameterId BlockPlan::*scale) {
  RowScales scales;
  for (const auto& block : plan.blocks) {
    if (block.*scale) scales.parameters.push_back(source_of(table[block.*scale]));
  }
  return scales;
}

// Of the blocks' own values in a value residual. The first visit's values are its own alone: there
// the weight is 1; a blend's parameter keeps a gradient of 0, and is stepped as such.
RowScales value_weights(const Plan& plan, const ParameterTable& table) {
  RowScales scales;
  const auto first = plan.visits.front().block;
  for (std::int64_t i = 0; i < std::ssize(plan.blocks); ++i) {
    const auto& [weights, blend] = plan.blocks[static_cast<std::size_t>(i)].value_mix;
    if (!weights) return {};
    if (blend) scales.offset = 1, scales.factor = -1;
    const auto parameter = table[weights];
    if (i == first) {
      if (blend) gradient_of(parameter);
      scales.parameters.push_back({at::full({1}, blend ? 0 : 1, parameter.options()), {}});
      continue;
    }
    const auto own = [&](const at::Tensor& x) {
      if (!x.defined()) return x;
      return blend ? x.view({1}) : x.narrow(0, 1, 1);
    };
    const auto source = source_of(parameter);
    scales.parameters.push_back({own(source.value), own(source.gradient)});
  }
  return scales;
}

}  // namespace

WeightCopies::Slices WeightCopies::placed(const at::Tensor& whole, const at::Tensor& padded,
                                          const Placement& at) {
  if (whole.sizes() == padded.sizes() && at.runs.size() <= 1) return {{whole, padded}};
  const bool by_head = at.heads > 0;
  const auto from = by_head ? whole.unflatten(at.dim, {at.heads, -1}) : whole;
  auto to = by_head ? padded.unflatten(at.dim, {at.heads, -1}) : padded;
  const auto channels = by_head ? at.dim + 1 : -1;
  for (std::int64_t dim = 0; dim < from.dim(); ++dim) {
    if (dim != channels) to = to.narrow(dim, 0, from.size(dim));
  }
  if (!by_head) return {{from, to}};
  Slices slices;
  for (const auto& run : at.runs) {
    slices.emplace_back(from.narrow(channels, run.from, run.count),
                        to.narrow(channels, run.to, run.count));
  }
  return slices;
}

at::Tensor RowScales::columns() const {
  std::vector<at::Tensor> values;
  for (const auto& parameter : parameters) values.push_back(parameter.value);
  return (offset + factor * at::stack(values)).unsqueeze(-1);
}

WeightCopies::WeightCopies(const ModelConfig& config, const Plan& plan, const ParameterTable& table,
                           const Numerics& numerics)
    : numerics_(numerics) {
  const at::NoGradGuard no_grad;
  const auto sizes = compute_sizes(config, numerics.padding);
  const auto blocks = std::ssize(plan.blocks);
  const auto& matrices = plan.matrices;
  BlockWeights banks;
  banks.qkv = make_qkv(config, plan, table, sizes);
  banks.out = make_copy(source_of(table, matrices.out),
                        {blocks, sizes.dim, config.num_heads * sizes.head_dim},
                        {2, config.num_heads, sizes.v_runs}, true,
                        output_scales(plan, table, &BlockPlan::attn_scale));
  banks.up = make_copy(source_of(table, matrices.up), {blocks, sizes.hidden, sizes.dim}, {}, true);
  banks.down = make_copy(source_of(table, matrices.down), {blocks, sizes.dim, sizes.hidden}, {},
                         true, output_scales(plan, table, &BlockPlan::mlp_scale));
  for (std::int64_t i = 0; i < blocks; ++i) blocks_.push_back(block_of(banks, i));
  for (const auto& visit : plan.visits) training_visits_.push_back(of(visit, /*training=*/false));
  if (plan.head.weight) head_ = make_head(table[plan.head.weight], sizes);
  training_head_ = head_;
  if (numerics_.fp8.any()) make_fp8(banks, plan, config.logit_softcap);
  for (const auto& head : plan.head.multi_token)
    mtp_heads_.push_back(make_head(table[head], sizes));
  cast();
}

Weight WeightCopies::make_qkv(const ModelConfig& config, const Plan& plan,
                              const ParameterTable& table, const ComputeSizes& sizes) {
  const auto blocks = std::ssize(plan.blocks);
  const auto heads = config.num_heads, kv_heads = config.num_kv_heads;
  const auto queries = source_of(table, plan.matrices.queries);
  const std::vector<std::int64_t> shape{blocks, (heads + 2 * kv_heads) * sizes.head_dim, sizes.dim};
  Weight qkv{at::zeros(shape, queries.value.options().dtype(numerics_.compute)), {}};
  if (queries.gradient.defined()) {
    qkv.gradient = at::zeros(shape, queries.gradient.options());
    gradient_buffers_.push_back(qkv.gradient);
  }
  // The rows of `count` heads from `head` on.
  const auto copy = [&](const WeightSource& from, std::int64_t head, std::int64_t count,
                        const std::vector<ChannelRun>& runs, const RowScales& scales = {}) {
    const auto rows = [&](const at::Tensor& x) {
      return x.defined() ? x.narrow(1, head * sizes.head_dim, count * sizes.head_dim) : x;
    };
    copy_into({rows(qkv.value), rows(qkv.gradient)}, from, {1, count, runs}, true, scales);
  };
  copy(queries, 0, heads, sizes.qk_runs);
  copy(source_of(table, plan.matrices.keys), heads, kv_heads, sizes.qk_runs);
  copy(source_of(table, plan.matrices.values), heads + kv_heads, kv_heads, sizes.v_runs,
       value_weights(plan, table));
  return qkv;
}

Weight WeightCopies::make_copy(const WeightSource& source, at::IntArrayRef sizes,
                               const Placement& placement, bool is_bank, const RowScales& scales) {
  const auto& parameter = source.value;
  Weight copy{at::zeros(sizes, parameter.options().dtype(numerics_.compute)), source.gradient};
  const bool padded = parameter.sizes() != sizes;
  if (padded && source.gradient.defined()) {
    copy.gradient = at::zeros(sizes, source.gradient.options());
    gradient_buffers_.push_back(copy.gradient);
  }
  copy_into({copy.value, padded ? copy.gradient : at::Tensor()}, source, placement, is_bank,
            scales);
  return copy;
}

// `target.gradient`: a buffer whose slices are added to the source's gradient, or undefined.
void WeightCopies::copy_into(const Weight& target, const WeightSource& source,
                             const Placement& placement, bool is_bank, const RowScales& scales) {
  copies_.push_back({source, target.value, placement, is_bank, scales});
  if (!target.gradient.defined()) return;
  for (const auto& slices : placed(source.gradient, target.gradient, placement))
    gradient_slices_.push_back(slices);
}

void WeightCopies::make_fp8(const BlockWeights& banks, const Plan& plan, double logit_softcap) {
  const auto& fp8 = numerics_.fp8;
  const struct {
    bool wanted;
    Weight BlockWeights::*matrix;
  } kinds[] = {{fp8.qkv, &BlockWeights::qkv},
               {fp8.out, &BlockWeights::out},
               {fp8.mlp, &BlockWeights::up},
               {fp8.mlp, &BlockWeights::down}};
  const bool has_head = head_.value.defined();
  const auto of_visits = std::ssize(plan.visits) * std::ssize(kinds);
  fp8_scales_ =
      Fp8Scales(of_visits + 2 * has_head, numerics_.step_tokens, banks.qkv.value.device());
  if (has_head) guess_head_scales(of_visits, logit_softcap);
  if (!numerics_.has_fp8) return;
  std::int64_t product = 0;
  for (const auto& [wanted, matrix] : kinds) {
    if (!wanted) continue;
    const auto bank = empty_fp8_weights((banks.*matrix).value);
    fp8_banks_.push_back({(banks.*matrix).value, bank});
    for (const auto& visit : plan.visits) {
      (training_visits_[static_cast<std::size_t>(visit.index)].*matrix).fp8 = {
          .value = bank.value[visit.block],
          .transposed = bank.transposed[visit.block],
          .scale = bank.scale[visit.block],
          .input = fp8_scales_.input(product),
          .output_gradient = fp8_scales_.output_gradient(product)};
      ++product;
    }
  }
  if (fp8.head && has_head && supports_fp8_head(head_.value, logit_softcap))
    make_fp8_head(of_visits);
}

Fp8Parts WeightCopies::fp8_parts() const {
  auto parts = numerics_.has_fp8 ? numerics_.fp8 : Fp8Parts{};
  parts.head = training_head_.fp8.defined();
  return parts;
}

void WeightCopies::guess_head_scales(std::int64_t product, double logit_softcap) {
  // Of logits near 0: weights e^−cap, of which the gradient has a quarter, a share of 4/(tokens·S),
  // and an input's elements up to 8. A logit that is far from it saturates, or is lost, for one
  // step. Beyond kMaxSoftcap the head is not computed in FP8.
  const double weight = std::exp(-std::min(logit_softcap, cuda::kMaxSoftcap));
  const double sum = weight * static_cast<double>(head_.value.size(0));
  fp8_scales_.set_head(product, weight / 4,
                       8 * 4 / (static_cast<double>(numerics_.step_tokens) * sum));
}

void WeightCopies::make_fp8_head(std::int64_t product) {
  const auto bank = head_.value.unsqueeze(0);
  const auto head = empty_fp8_weights(bank);
  fp8_banks_.push_back({bank, head});
  training_head_.fp8 = {.value = head.value[0],
                        .transposed = head.transposed[0],
                        .scale = head.scale[0],
                        .input = fp8_scales_.input(product),
                        .output_gradient = fp8_scales_.output_gradient(product),
                        .scaled_input = fp8_scales_.input(product + 1)};
}

Weight WeightCopies::make_head(const at::Tensor& parameter, const ComputeSizes& sizes) {
  return make_copy(source_of(parameter), {sizes.vocab, sizes.dim}, {},
                   /*is_bank=*/false);
}

at::Tensor WeightCopies::rounded(const at::Tensor& parameter, bool is_bank) const {
  // The reference implementation's QAT skips the banks and has one level more than its quantiser
  // (-32).
  const bool rounds = fake_quant_ && !(is_bank && numerics_.record_quirks);
  return rounds ? fake_quant(parameter, numerics_.record_quirks ? -32 : -31) : parameter;
}

void WeightCopies::cast() {
  const at::NoGradGuard no_grad;
  for (const auto& copy : copies_) {
    auto parameter = rounded(copy.source.value, copy.is_bank);
    if (!copy.scales.parameters.empty()) parameter = parameter * copy.scales.columns();
    for (const auto& [from, to] : placed(parameter, copy.value, copy.placement)) to.copy_(from);
  }
  for (const auto& [from, to] : fp8_banks_) round_weights(from, to);
}

void WeightCopies::collect_gradients() {
  const at::NoGradGuard no_grad;
  for (const auto& [gradient, buffered] : gradient_slices_) gradient.add_(buffered);
  for (const auto& buffer : gradient_buffers_) buffer.zero_();
  for (const auto& copy : copies_) unscale_gradient(copy);
}

void WeightCopies::unscale_gradient(const Copy& copy) {
  const auto& parameters = copy.scales.parameters;
  const auto& [value, gradient] = copy.source;
  if (parameters.empty() || !gradient.defined()) return;
  const auto products = (gradient * rounded(value, copy.is_bank)).sum(-1);  // [matrices, rows]
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto of_matrix = products[static_cast<std::int64_t>(i)];
    const auto& target = parameters[i].gradient;
    if (target.defined()) target.add_(of_matrix.sum_to_size(target.sizes()), copy.scales.factor);
  }
  gradient.mul_(copy.scales.columns());
}

at::Tensor WeightCopies::small(const at::Tensor& parameter) const {
  return rounded(parameter, /*is_bank=*/false);
}

}  // namespace tg
