#include "model/gpt.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <memory>
#include <utility>
#include <vector>

#include "ops/loss/linear_cross_entropy.h"
#include "ops/loss/masked_nll.h"
#include "ops/loss/softcap_cross_entropy.h"

namespace tg {

namespace {

// Loss scale of adapted losses: keeps most gradients of a mean over `targets` above fp16's
// underflow. The gradients of the sum are scaled by 64, LossScale's initial value.
double grad_scale_of(at::ScalarType compute, std::int64_t targets) {
  constexpr std::uint64_t kSumScale = 64;
  if (compute != at::kHalf) return 1;
  return static_cast<double>(std::bit_floor(kSumScale * static_cast<std::uint64_t>(targets)));
}

}  // namespace

Gpt::Gpt(Plan plan, const ParameterTable& table, const Numerics& numerics)
    : numerics_(numerics),
      plan_(std::move(plan)),
      sizes_(compute_sizes(plan_.shape, numerics.padding, plan_.rope_interleaved)),
      table_(table),
      weights_(plan_, table_, numerics_),
      backbone_(plan_, sizes_, table_, weights_, numerics_),
      constant_table_(table_.as_constants()),
      frozen_weights_(weights_.as_constants()),
      frozen_(plan_, sizes_, constant_table_, frozen_weights_, numerics_) {}

void Gpt::set_fake_quant(bool on) {
  weights_.set_fake_quant(on);
  frozen_weights_.set_fake_quant(on);
}

std::string Gpt::kernels(std::int64_t batch, std::int64_t tokens, std::int64_t context) const {
  const at::AutoGradMode as_in_training(true);
  // Expanded from one element: only the shape, dtype and device are read.
  const auto x = at::empty({1, 1, 1}, table_[plan_.embedding.tokens].options())
                     .to(numerics_.compute)
                     .expand({batch, tokens, sizes_.dim});
  const bool fp8 = fp8_parts().any();
  const auto call = backbone_.choose_kernels(pass(), x, context, fp8);
  const auto head = choose_linear_cross_entropy(x.flatten(0, 1), backbone_.head(sizes_.vocab, fp8),
                                                plan_.head.softcap);
  return fmt::format("norm:{} qkv:{} out:{} mlp:{} head:{}", kernel_name(choose_residual_norm(x)),
                     kernel_name(call.qkv), kernel_name(call.out), kernel_name(call.mlp),
                     kernel_name(head));
}

at::Tensor Gpt::multi_token_loss(const at::Tensor& states_btd, const at::Tensor& targets_bt,
                                 const ForwardMode& mode) const {
  const auto& heads = weights_.mtp_heads();
  const double weight = plan_.head.multi_token_weight / static_cast<double>(heads.size());
  at::Tensor sum;
  for (std::int64_t k = 0; k < std::ssize(heads); ++k) {
    // Head k predicts the token k + 2 positions after its input.
    const auto length = states_btd.size(1) - (k + 1);
    const auto loss = linear_cross_entropy(states_btd.narrow(1, 0, length).flatten(0, 1),
                                           heads[static_cast<std::size_t>(k)],
                                           targets_bt.narrow(1, k + 1, length).flatten(),
                                           {.softcap = plan_.head.softcap,
                                            .scale = mode.scale * weight,
                                            .vocab = plan_.shape.vocab,
                                            .grad_scale = mode.grad_scale});
    sum = sum.defined() ? sum + loss : loss;
  }
  return sum;
}

at::Tensor Gpt::loss(const at::Tensor& inputs_bt, const at::Tensor& targets_bt,
                     const ForwardMode& mode, const std::optional<Documents>& documents) const {
  auto states = backbone_.final_states(inputs_bt, pass(), {.fp8 = mode.fp8, .documents = documents},
                                       mode.context);
  if (mode.lead > 0) states = states.rows().slice(1, mode.lead).contiguous();
  assert(mode.lead == 0 || (!mode.auxiliary_losses && !mode.further));
  const auto targets = mode.further ? with_further_targets(targets_bt, *mode.further)
                                    : LossTargets(targets_bt.slice(1, mode.lead).flatten());
  auto loss = linear_cross_entropy(states.flat(), backbone_.head(sizes_.vocab, mode.fp8), targets,
                                   {.softcap = plan_.head.softcap,
                                    .scale = mode.scale,
                                    .vocab = plan_.shape.vocab,
                                    .grad_scale = mode.grad_scale,
                                    .mean_nll = mode.mean_nll});
  if (mode.auxiliary_losses && !plan_.head.multi_token.empty() &&
      plan_.head.multi_token_weight > 0) {
    loss = loss + multi_token_loss(states.rows(), targets_bt, mode);
  }
  return loss;
}

at::Tensor Gpt::scored_states(const at::Tensor& inputs_bt, const std::optional<Positions>& only,
                              const std::optional<Documents>& documents,
                              std::int64_t context) const {
  const auto states = backbone_.final_states(
      inputs_bt, pass(), {.only = documents ? std::nullopt : only, .documents = documents},
      context);
  auto rows = states.rows();
  if (documents && only) rows = rows.narrow(1, only->from, only->count());
  return rows.flatten(0, 1).contiguous();
}

at::Tensor Gpt::token_losses(const at::Tensor& inputs_bt, const at::Tensor& targets_bs,
                             const std::optional<Positions>& only,
                             const std::optional<Documents>& documents,
                             std::int64_t context) const {
  const at::NoGradGuard no_grad;
  return linear_nll(scored_states(inputs_bt, only, documents, context),
                    backbone_.head(sizes_.vocab), targets_bs.flatten(),
                    {.softcap = plan_.head.softcap, .vocab = plan_.shape.vocab})
      .view(targets_bs.sizes());
}

Gpt::MaskedLosses Gpt::masked_losses(const at::Tensor& inputs_bt, const at::Tensor& targets_bt,
                                     const at::Tensor& mask,
                                     const std::optional<Documents>& documents) const {
  const at::NoGradGuard no_grad;
  const auto states = scored_states(inputs_bt, /*only=*/{}, documents, /*context=*/0);
  const auto& softcap = plan_.head.softcap;
  const auto inputs = inputs_bt.flatten(), targets = targets_bt.flatten();
  std::vector<at::Tensor> masked, unmasked;
  for_each_logits(
      states, backbone_.head(sizes_.vocab), [&](std::int64_t first, const at::Tensor& z) {
        const auto here = [&](const at::Tensor& all) { return all.narrow(0, first, z.size(0)); };
        masked.push_back(
            masked_softcap_nll(z, here(inputs), here(targets), mask, softcap, plan_.shape.vocab));
        unmasked.push_back(softcap_nll(z, here(targets), softcap, plan_.shape.vocab));
      });
  return {at::cat(masked).view(targets_bt.sizes()), at::cat(unmasked).view(targets_bt.sizes())};
}

at::Tensor Gpt::adapted_losses(const at::Tensor& inputs_bt, const at::Tensor& targets_bs,
                               const LoraAdapters& adapters, const std::optional<Positions>& only,
                               std::int64_t context) const {
  const double grad_scale = grad_scale_of(numerics_.compute, targets_bs.size(1));
  const auto loras =
      std::make_shared<const LoraPass>(adapters, inputs_bt.size(0), pass(), plan_, constant_table_,
                                       sizes_, numerics_.compute, grad_scale);
  auto states = frozen_.final_states(inputs_bt, pass(), {.loras = loras}, context).rows();
  if (only) states = states.narrow(1, only->from, only->count()).contiguous();
  const auto logits = loras->add_head(linear(states, frozen_.head(sizes_.vocab)), states);
  return softcap_losses(logits.flatten(0, 1), targets_bs.flatten(), plan_.head.softcap,
                        plan_.shape.vocab, grad_scale)
      .view(targets_bs.sizes());
}

at::Tensor Gpt::softcapped(const at::Tensor& logits) const {
  const auto& softcap = plan_.head.softcap;
  auto z = logits.narrow(-1, 0, plan_.shape.vocab).to(at::kFloat);
  if (softcap.shift != 0) z = z + softcap.shift;
  return softcap.cap * (z / softcap.temperature).tanh();
}

at::Tensor Gpt::logits(const at::Tensor& inputs_bt, const Positions& only,
                       std::int64_t context) const {
  const at::NoGradGuard no_grad;
  const auto states = backbone_.final_states(inputs_bt, pass(), {.only = only}, context);
  return softcapped(linear(states, backbone_.head(sizes_.vocab)));
}

void Gpt::observe(const at::Tensor& inputs_bt, const OperandObserver& observer) const {
  const at::NoGradGuard no_grad;
  backbone_.final_states(inputs_bt, pass(), {.observer = &observer});
}

DecodeCache Gpt::make_cache(std::int64_t batch, std::int64_t capacity, std::int64_t context) const {
  DecodeCache cache{.capacity = capacity, .context = context == 0 ? capacity : context};
  const auto options = table_[plan_.matrices.keys.bank].options().dtype(numerics_.compute);
  const auto empty = [&] {
    return at::empty({batch, capacity, plan_.shape.kv_heads, sizes_.head_dim},
                     options.requires_grad(false));
  };
  cache.calls.resize(plan_.all_calls().size());
  for (const auto& call : this->pass().calls) {
    if (call.attends) cache.calls[static_cast<std::size_t>(call.index)] = {empty(), empty()};
  }
  return cache;
}

at::Tensor Gpt::next_logits(const at::Tensor& ids_bn, DecodeCache& cache) const {
  const at::NoGradGuard no_grad;
  const auto count = ids_bn.size(1);
  assert(count > 0 && cache.length + count <= cache.capacity);
  const auto states = backbone_.final_states(
      ids_bn, pass(), {.only = Positions{count - 1, count}, .cache = &cache});
  cache.add(ids_bn);
  // Decoding is memory-bound: padding the table would cost more than it saves.
  return softcapped(linear(states, backbone_.head(plan_.shape.vocab)).squeeze(1));
}

}  // namespace tg
