#include "eval/sampler.h"

#include <algorithm>

namespace tg {

std::int64_t Sampler::draw(const at::Tensor& logits_v) {
  const auto logits = logits_v.detach().to(at::kCPU, at::kDouble);
  if (options_.temperature == 0) return logits.argmax().const_data_ptr<std::int64_t>()[0];
  // Of equal logits the lower id comes first.
  auto [sorted, ids] = at::sort(logits / options_.temperature, /*stable=*/true, /*dim=*/0,
                                /*descending=*/true);
  if (options_.top_k > 0) sorted = sorted.narrow(0, 0, std::min(options_.top_k, sorted.size(0)));
  const auto sums = sorted.softmax(0).cumsum(0);
  const auto* const cumulative = sums.const_data_ptr<double>();
  const auto* const end = cumulative + sums.numel();
  // The last token that is kept is the one whose sum reaches p.
  const auto* last = std::lower_bound(cumulative, end, options_.top_p);
  if (last == end) --last;
  constexpr double kUnit = 0x1.0p-53;
  const double point = static_cast<double>(random_() >> 11) * kUnit * *last;
  const auto chosen = std::upper_bound(cumulative, last, point) - cumulative;
  return ids.const_data_ptr<std::int64_t>()[chosen];
}

}  // namespace tg
