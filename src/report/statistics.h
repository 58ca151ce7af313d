#pragma once
// Statistics of a few runs that differ in their seed.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

// The last scores of groups of runs, with mean, deviation and p-values.
struct SeedStudy {
  std::vector<std::string> runs;     // metrics.jsonl of each run
  std::vector<std::string> against;  // of the runs that they are compared with; may be empty
  std::optional<double> below;       // a bound that means are tested against
};

// Returns a table with a line for each number that all runs have: the last validation, the scores
// of the final weights and the training time. Throws Error: missing_input, io; bad_data if the runs
// have no such number in common, or for what MetricsReader rejects.
std::string seed_study_text(const SeedStudy& study);

}  // namespace tg
