#include "ops/loss/masked_nll.h"

#include <algorithm>
#include <cassert>

namespace tg {

namespace {

// Logits at once: bounds each fp32 temporary to 256 MB at any vocabulary.
constexpr std::int64_t kLogitsAtOnce = std::int64_t{1} << 26;

// The first `columns` bits of the mask's rows [n, ⌈V / 8⌉] uint8 → [n, columns] bool.
at::Tensor unpacked(const at::Tensor& rows, const at::Tensor& bits, std::int64_t columns) {
  return rows.unsqueeze(2).bitwise_and(bits).ne(0).flatten(1).narrow(1, 0, columns);
}

at::Tensor softcapped(const at::Tensor& logits, const Softcap& softcap) {
  const auto dtype = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  auto s = logits.to(dtype, /*non_blocking=*/false, /*copy=*/true);
  if (softcap.shift != 0) s.add_(softcap.shift);
  return s.div_(softcap.temperature).tanh_().mul_(softcap.cap);
}

}  // namespace

at::Tensor masked_softcap_nll(const at::Tensor& logits_nv, const at::Tensor& inputs_n,
                              const at::Tensor& targets_n, const at::Tensor& mask,
                              const Softcap& softcap, std::int64_t vocab) {
  const at::NoGradGuard no_grad;
  const auto rows = logits_nv.size(0), columns = vocab == 0 ? logits_nv.size(1) : vocab;
  assert(columns <= logits_nv.size(1) && columns <= 8 * mask.size(1));
  // 1, 2, 4, … 128, made on the device: a copy from the host cannot be captured in a graph.
  const auto bits =
      at::bitwise_left_shift(at::ones({8}, mask.options()), at::arange(8, mask.options()));
  const auto at_once = std::max<std::int64_t>(1, kLogitsAtOnce / columns);
  const auto lowest = -softcap.cap - kBelowSoftcap;
  at::Tensor nll;
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const auto count = std::min(at_once, rows - first);
    const auto here = [&](const at::Tensor& all) { return all.narrow(0, first, count); };
    auto s = softcapped(here(logits_nv).narrow(1, 0, columns), softcap);
    s.masked_fill_(unpacked(mask.index_select(0, here(inputs_n)), bits, columns), lowest);
    const auto losses = s.log_softmax(1).gather(1, here(targets_n).unsqueeze(1)).squeeze(1).neg();
    if (!nll.defined()) nll = at::empty({rows}, losses.options());
    here(nll).copy_(losses);
  }
  return nll;
}

}  // namespace tg
