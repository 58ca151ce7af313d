#pragma once
// The range of a numeric setting. Settings of other types take `anything`.
#include <limits>

namespace tg {

struct Limit {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;   // low itself is not allowed
  bool high_open = false;  // high itself is not allowed

  constexpr bool allows(double value) const {
    return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
  }
};

inline constexpr Limit anything{};
constexpr Limit at_least(double low) {
  return {.low = low};
}
constexpr Limit above(double low) {
  return {.low = low, .low_open = true};
}
constexpr Limit within(double low, double high) {
  return {.low = low, .high = high};
}
// [0, 1): decays, momenta and betas, where 1 would never update.
inline constexpr Limit fraction{.low = 0, .high = 1, .high_open = true};

// Upper limits that keep products of settings within 64 bits.
inline constexpr double most_tokens = 1LL << 40;  // of a step, of validation
inline constexpr double most_tokens_in_row = 1 << 24;
inline constexpr double most_channels = 1 << 24;
inline constexpr double most_parts = 1 << 16;  // layers, heads, accumulation steps
inline constexpr double most_ids = 1 << 20;    // of a vocabulary

}  // namespace tg
