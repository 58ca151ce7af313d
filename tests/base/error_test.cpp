#include "base/error.h"

#include <gtest/gtest.h>

namespace tg {
namespace {

TEST(Error, CarriesItsExitCodeAndOneFormattedLine) {
  try {
    REQUIRE(1 > 2, ExitCode::bad_data, "{}: expected {} bytes, found {}", "a.bin", 12, 7);
    FAIL() << "REQUIRE let a false condition pass";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_data);
    EXPECT_STREQ(error.what(), "a.bin: expected 12 bytes, found 7");
  }
  EXPECT_NO_THROW(REQUIRE(2 > 1, ExitCode::usage, "never"));
}

}  // namespace
}  // namespace tg
