#include "optim/averaging.h"

#include <fmt/format.h>

namespace tg {

WeightAverage::WeightAverage(const ParameterTable& table, const AveragingConfig& config,
                             Communicator& communicator, bool record_quirks)
    : table_(table),
      config_(config),
      communicator_(communicator),
      keeps_ema_(config.ema_enabled || config.lawa_enabled),
      keeps_swa_(config.swa_enabled && !config.ema_enabled && !config.lawa_enabled &&
                 !record_quirks) {
  for (const auto& row : table.rows()) shards_.push_back(shard_of(row, communicator));
  if (keeps_ema_) ema_ = copy_weights();
}

WeightAverage::Copy WeightAverage::weights(bool copies) const {
  Copy values;
  for (const auto& shard : shards_)
    values.push_back(shard.value.to(at::kFloat, /*non_blocking=*/false, copies));
  return values;
}

bool WeightAverage::takes_swa(std::int64_t step, double lr_scale) const {
  constexpr double kSwaScale = 0.2;  // fixed in the reference implementation
  return config_.swa_enabled && lr_scale < kSwaScale && step % config_.swa_every == 0;
}

bool WeightAverage::update(std::int64_t step, double lr_scale) {
  const at::NoGradGuard no_grad;
  if (keeps_ema_) at::_foreach_lerp_(ema_, weights(), 1.0 - config_.ema_decay);
  if (config_.lawa_enabled && step % config_.lawa_freq == 0) {
    lawa_.push_back(copy_weights());
    if (static_cast<std::int64_t>(lawa_.size()) > config_.lawa_k) lawa_.pop_front();
  }
  if (!takes_swa(step, lr_scale)) return false;
  if (keeps_swa_) {
    if (swa_count_++ == 0) {
      swa_sum_ = copy_weights();
    } else {
      at::_foreach_add_(swa_sum_, weights());
    }
  }
  return !std::exchange(swa_started_, true);
}

void WeightAverage::set_weights(const Copy& average) {
  for (std::size_t i = 0; i < average.size(); ++i) shards_[i].value.copy_(average[i]);
  for (const auto& row : table_.rows()) gather_parameter(row, communicator_)();
}

void WeightAverage::allocate_copies(std::int64_t lawa_copies) {
  if (swa_count_ == 0) swa_sum_.clear();
  if (swa_count_ > 0 && swa_sum_.empty()) swa_sum_ = copy_weights();
  while (static_cast<std::int64_t>(lawa_.size()) > lawa_copies) lawa_.pop_back();
  while (static_cast<std::int64_t>(lawa_.size()) < lawa_copies) lawa_.push_back(copy_weights());
}

void WeightAverage::allocate_all() {
  swa_count_ = keeps_swa_ ? 1 : 0;
  allocate_copies(config_.lawa_enabled ? config_.lawa_k : 0);
}

NamedTensors WeightAverage::state(bool sharded) const {
  NamedTensors all;
  const auto add = [&](const std::string& prefix, const Copy& copy) {
    for (std::size_t i = 0; i < copy.size(); ++i) {
      if (shards_[i].first_chunk.has_value() != sharded) continue;
      for (const auto& [name, value] : shards_[i].named(copy[i]))
        all.emplace_back(prefix + name, value);
    }
  };
  add("ema.", ema_);
  add("swa.", swa_sum_);
  for (std::size_t i = 0; i < lawa_.size(); ++i) add(fmt::format("lawa.{}.", i), lawa_[i]);
  return all;
}

std::string WeightAverage::apply() {
  const at::NoGradGuard no_grad;
  if (config_.lawa_enabled && lawa_.size() > 1) {
    auto mean = lawa_.front();
    for (std::size_t i = 1; i < lawa_.size(); ++i) at::_foreach_add_(mean, lawa_[i]);
    at::_foreach_div_(mean, static_cast<double>(lawa_.size()));
    set_weights(mean);
    return fmt::format("lawa:applying LAWA averaging k={}", lawa_.size());
  }
  if (keeps_ema_) {
    set_weights(ema_);
    return "ema:applying EMA weights";
  }
  if (swa_count_ > 0) {
    at::_foreach_div_(swa_sum_, static_cast<double>(swa_count_));
    set_weights(swa_sum_);
    return fmt::format("swa:applying SWA averaging k={}", swa_count_);
  }
  return "";
}

}  // namespace tg
