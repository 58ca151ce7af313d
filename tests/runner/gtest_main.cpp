// main() of the GoogleTest programs. Exit status: 0; 1 where a test failed; 77, which ctest calls
// skipped, where tests were skipped and nothing ran. Each skipped test is a line
// "SKIPPED NAME: REASON", which skips.py reads.
#include <gtest/gtest.h>

#include <iostream>
#include <string>

namespace {

constexpr int kNothingRan = 77;

// The last line of what GTEST_SKIP() says: before it gtest may write one of its own.
std::string reason(const testing::TestResult& result) {
  for (int i = 0; i < result.total_part_count(); ++i) {
    const auto& part = result.GetTestPartResult(i);
    if (!part.skipped()) continue;
    std::string text = part.message();
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  }
  return "";
}

void print_skipped(const testing::UnitTest& tests) {
  for (int i = 0; i < tests.total_test_suite_count(); ++i) {
    const auto& suite = *tests.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const auto& test = *suite.GetTestInfo(k);
      if (!test.result()->Skipped()) continue;
      std::cout << "SKIPPED " << suite.name() << '.' << test.name() << ": "
                << reason(*test.result()) << '\n';
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const auto& tests = *testing::UnitTest::GetInstance();
  print_skipped(tests);
  if (failed != 0) return failed;
  const bool ran = tests.successful_test_count() > 0;
  return tests.skipped_test_count() > 0 && !ran ? kNothingRan : 0;
}
