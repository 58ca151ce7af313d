#include "model/fp8_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/loss/linear_cross_entropy.h"

namespace tg {

namespace {

struct Kind {
  const char* name;
  bool Fp8Parts::*part;
  Weight BlockWeights::*matrix;
  BlockMatrices MatricesPlan::*matrices;
};
// In the order of the scales: kinds in FP8 first.
std::array<Kind, 4> kinds_of(const Fp8Parts& parts) {
  std::array<Kind, 4> kinds{{{"qkv", &Fp8Parts::qkv, &BlockWeights::qkv, &MatricesPlan::queries},
                             {"out", &Fp8Parts::out, &BlockWeights::out, &MatricesPlan::out},
                             {"up", &Fp8Parts::mlp, &BlockWeights::up, &MatricesPlan::up},
                             {"down", &Fp8Parts::mlp, &BlockWeights::down, &MatricesPlan::down}}};
  std::ranges::stable_partition(kinds, [&](const Kind& kind) { return parts.*kind.part; });
  return kinds;
}

// The head has two entries (Fp8Scales::set_head).
std::vector<std::string> gemm_names(const Plan& plan, const Fp8Parts& parts, bool has_head) {
  std::vector<std::string> names;
  for (const auto& kind : kinds_of(parts)) {
    for (const auto& call : plan.all_calls())
      names.push_back(fmt::format("calls.{}.{}", call.index, kind.name));
  }
  if (has_head) names.insert(names.end(), {"head", "head.scaled_input"});
  return names;
}

Weight matrix_at(const Weight& bank, std::optional<std::int64_t> place) {
  if (!place) return {};
  return {bank.value[*place], bank.gradient.defined() ? bank.gradient[*place] : bank.gradient};
}

}  // namespace

BlockWeights BlockWeights::of_block(const MatricesPlan& matrices, std::int64_t block) const {
  return {matrix_at(qkv, matrices.queries.place(block)), matrix_at(out, matrices.out.place(block)),
          matrix_at(up, matrices.up.place(block)), matrix_at(down, matrices.down.place(block))};
}

Fp8Weights::Fp8Weights(const Plan& plan, const Numerics& numerics, const BlockWeights& banks,
                       const Weight& head, const Logits& logits)
    : head_(head) {
  for (const auto& call : plan.all_calls())
    calls_.push_back(banks.of_block(plan.matrices, call.block));
  if (!numerics.fp8.any()) return;
  const bool has_head = plan.head.weight || logits.columns >= kMinFusedColumns;
  const auto gemms = gemm_names(plan, numerics.fp8, has_head);
  const auto head_gemm = std::ssize(gemms) - 2;
  scales_ = Fp8Scales(gemms, numerics.step_tokens, banks.qkv.value.device());
  if (has_head) guess_head_scales(head_gemm, numerics.step_tokens, logits);
  if (!numerics.has_fp8) return;
  parts_ = numerics.fp8;
  add_matrices(plan, banks, numerics.fp8);
  parts_.head =
      parts_.head && head.value.defined() && supports_fp8_head(head.value, logits.softcap);
  if (parts_.head) add_head(head_gemm);
}

void Fp8Weights::add_matrices(const Plan& plan, const BlockWeights& banks,
                              const Fp8Parts& enabled) {
  std::int64_t gemm = 0;
  for (const auto& [name, part, matrix, matrices] : kinds_of(enabled)) {
    if (!(enabled.*part)) break;
    const auto bank = empty_fp8_weights((banks.*matrix).value);
    banks_.push_back({(banks.*matrix).value, bank});
    for (const auto& call : plan.all_calls()) {
      if (const auto place = (plan.matrices.*matrices).place(call.block)) {
        (calls_[static_cast<std::size_t>(call.index)].*matrix).fp8 = {
            .value = bank.value[*place],
            .transposed = bank.transposed[*place],
            .scale = bank.scale[*place],
            .input = scales_.input(gemm, /*cached=*/part == &Fp8Parts::out),
            .output_gradient = scales_.output_gradient(gemm)};
      }
      ++gemm;
    }
  }
}

void Fp8Weights::guess_head_scales(std::int64_t gemm, std::int64_t tokens, const Logits& logits) {
  // Assumes logits near 0: weights e^−cap without a shift, gradients G of at most a quarter of
  // that, a coefficient 4/(tokens·S), and input elements up to 8. Logits far from 0 saturate or
  // underflow for one step. Beyond kMaxSoftcap the head is not computed in FP8.
  const auto& [cap, shift, temperature] = logits.softcap;
  const double at_zero = std::tanh(shift / temperature);
  const double weight = std::exp(std::min(cap, cuda::kMaxSoftcap) * (at_zero - 1));
  const double sum = weight * static_cast<double>(logits.columns);
  scales_.set_head(gemm, weight / 4,
                   8 * 4 * logits.softcap.gain() / (static_cast<double>(tokens) * sum));
}

void Fp8Weights::add_head(std::int64_t gemm) {
  const auto bank = head_.value.unsqueeze(0);
  const auto rounded = empty_fp8_weights(bank);
  banks_.push_back({bank, rounded});
  head_.fp8 = {.value = rounded.value[0],
               .transposed = rounded.transposed[0],
               .scale = rounded.scale[0],
               .input = scales_.input(gemm),
               .output_gradient = scales_.output_gradient(gemm),
               .scaled_input = scales_.input(gemm + 1)};
}

void Fp8Weights::inherit_scales(const Pass& from, const Pass& to) {
  if (!scales_.defined()) return;
  const auto kinds = std::ssize(kinds_of({})), calls = std::ssize(calls_);
  for (const auto& call : to.calls) {
    const auto is_new =
        std::ranges::find(from.calls, call.index, &LayerCall::index) == from.calls.end();
    const auto before = std::ranges::find(from.calls, call.block, &LayerCall::block);
    if (!is_new || before == from.calls.end()) continue;
    for (std::int64_t kind = 0; kind < kinds; ++kind)
      scales_.copy(kind * calls + before->index, kind * calls + call.index);
  }
}

void Fp8Weights::round() {
  for (const auto& [from, to] : banks_) round_weights(from, to);
}

}  // namespace tg
