#pragma once
// Statistics of a few runs that differ in their seed.
#include <cstdint>
#include <span>

namespace tg {

struct Sample {
  std::int64_t count = 0;
  double mean = 0;
  double deviation = 0;  // of a sample, divided by count − 1; NaN for fewer than two values
  double least = 0, greatest = 0;
};
// Precondition: there is a value.
Sample sample_of(std::span<const double> values);

// Returns P(T ≤ t) of Student's t distribution with `freedom` > 0 degrees of freedom; NaN for NaN.
double student_cdf(double t, double freedom);

// Student's t-test of one sample: the probability of so low a mean, or a lower one, if the mean of
// all runs were `bound`. NaN for fewer than two values.
double p_below(const Sample& sample, double bound);

// Welch's t-test (1947) of two samples: the two-sided probability of so large a difference of the
// means if all runs of both had one mean. NaN for fewer than two values in either.
double p_different(const Sample& a, const Sample& b);

}  // namespace tg
