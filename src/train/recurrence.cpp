#include "train/recurrence.h"

#include <fmt/ranges.h>

#include <span>

#include "model/visit_order.h"

namespace tg {

RecurrenceOrder recurrence_order(const ModelConfig& model) {
  const auto order = block_order(model, /*recurs=*/true);
  const auto encoder = order.size() / 2;
  const auto text = [](std::span<const std::int64_t> blocks) {
    return fmt::format("[{}]", fmt::join(blocks, ", "));
  };
  return {text(std::span(order).first(encoder)), text(std::span(order).subspan(encoder))};
}

}  // namespace tg
