#include "report/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

namespace tg {
namespace {

// Continued fraction of the incomplete beta function, by Lentz's method (Abramowitz and Stegun
// 26.5.8). Converges within some ten terms for x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), result = d;
  for (int m = 1; m < 1000; ++m) {
    double change = 1;
    for (const double term : {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                              -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))}) {
      d = 1 / away_from_zero(1 + term * d);
      c = away_from_zero(1 + term / c);
      change = c * d;
      result *= change;
    }
    if (std::abs(change - 1) < 1e-15) break;
  }
  return result;
}

// Regularized incomplete beta function I_x(a, b).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  return front * beta_fraction(a, b, x) / a;
}

double squared_error(const Sample& sample) {  // of the mean
  return sample.deviation * sample.deviation / static_cast<double>(sample.count);
}

}  // namespace

Sample sample_of(std::span<const double> values) {
  assert(!values.empty());
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {.count = static_cast<std::int64_t>(values.size()),
          .mean = mean,
          .deviation = values.size() > 1 ? std::sqrt(squares / (count - 1))
                                         : std::numeric_limits<double>::quiet_NaN(),
          .least = *std::ranges::min_element(values),
          .greatest = *std::ranges::max_element(values)};
}

double student_cdf(double t, double freedom) {
  if (std::isnan(t) || std::isnan(freedom)) return std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(t)) return t > 0 ? 1 : 0;
  const double tail = incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2;
  return t > 0 ? 1 - tail : tail;
}

double p_below(const Sample& sample, double bound) {
  const double difference = sample.mean - bound;
  // Equal values have no deviation: the mean is below the bound, or it is not.
  if (sample.deviation == 0) return difference < 0 ? 0 : 1;
  return student_cdf(difference / std::sqrt(squared_error(sample)),
                     static_cast<double>(sample.count - 1));
}

double p_different(const Sample& a, const Sample& b) {
  const double of_a = squared_error(a), of_b = squared_error(b), sum = of_a + of_b;
  if (sum == 0) return a.mean == b.mean ? 1 : 0;
  const double freedom = sum * sum /
                         (of_a * of_a / static_cast<double>(a.count - 1) +
                          of_b * of_b / static_cast<double>(b.count - 1));
  return 2 * student_cdf(-std::abs(a.mean - b.mean) / std::sqrt(sum), freedom);
}

}  // namespace tg
