#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "train/run_state.h"

namespace tg {
namespace {

FiniteWatch watch(OnNonfinite choice, std::int64_t limit = 10) {
  RuntimeConfig config;
  config.on_nonfinite = choice;
  config.nonfinite_limit = limit;
  return FiniteWatch(config);
}

StepMetrics step_of(double loss, double norm, bool skipped, std::optional<double> scale = {}) {
  return {.loss = loss, .grad_norm = norm, .skipped = skipped, .loss_scale = scale};
}

TEST(FiniteWatch, StopsAtTheFirstStepThatIsNotFinite) {
  auto stops = watch(OnNonfinite::stop);
  EXPECT_FALSE(stops.after_step(1, step_of(6.2, 1.5, false)));
  EXPECT_THROW(stops.after_step(2, step_of(NAN, 1.5, true)), Error);
}

TEST(FiniteWatch, GivesUpAfterSoManySkipsInARow) {
  auto skips = watch(OnNonfinite::skip, 3);
  EXPECT_TRUE(skips.after_step(1, step_of(NAN, 1, true)));
  EXPECT_TRUE(skips.after_step(2, step_of(NAN, 1, true)));
  try {
    skips.after_step(3, step_of(NAN, 1, true));
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::internal);
    EXPECT_NE(std::string(error.what()).find("3 steps in a row (NONFINITE_LIMIT=3)"),
              std::string::npos)
        << error.what();
  }
}

TEST(FiniteWatch, AFiniteStepBeginsTheCountAnew) {
  auto skips = watch(OnNonfinite::skip, 2);
  for (std::int64_t step = 1; step <= 20; ++step) {
    const bool skipped = step % 2 == 1;
    const auto event = skips.after_step(step, step_of(skipped ? INFINITY : 6, 1, skipped));
    EXPECT_EQ(event.has_value(), skipped);
    if (skipped) {
      EXPECT_EQ(event->step, step);
      EXPECT_EQ(event->total, (step + 1) / 2);
    }
  }
}

TEST(FiniteWatch, AnOverflowInFp16CountsForNothingUntilTheLossScaleIsOne) {
  auto stops = watch(OnNonfinite::stop, 2);
  double scale = 65536;
  for (std::int64_t step = 1; step <= 16; ++step, scale /= 2) {
    const auto event = stops.after_step(step, step_of(6, INFINITY, true, scale));
    ASSERT_TRUE(event) << step;
    EXPECT_EQ(event->loss_scale, scale);
    EXPECT_EQ(event->total, step);
  }
  EXPECT_EQ(scale, 1);
  EXPECT_THROW(stops.after_step(17, step_of(6, INFINITY, true, scale)), Error);
}

}  // namespace
}  // namespace tg
