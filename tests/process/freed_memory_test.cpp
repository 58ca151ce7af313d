#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include "process/machine.h"

namespace tg {
namespace {

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Page faults of four tensors of 24 MiB, each freed before the next one is allocated. As many as 16
// come before them: a thread's cache of small blocks keeps the first ones from growing together.
long faults_of_tensors() {
  const auto write = [] { at::zeros({24 << 18}); };
  for (int times = 0; times < 16; ++times) write();
  const auto before = page_faults();
  for (int times = 0; times < 4; ++times) write();
  return page_faults() - before;
}

TEST(FreedMemory, ServesTheNextTensorsWithoutPageFaults) {
  // What the environment chose for this program is set back to glibc's initial thresholds.
  constexpr int kInitialThreshold = 128 << 10;
  ASSERT_EQ(mallopt(M_MMAP_THRESHOLD, kInitialThreshold), 1);
  ASSERT_EQ(mallopt(M_TRIM_THRESHOLD, kInitialThreshold), 1);
  constexpr long kPages = 4 * (24 << 20) / 4096;
  EXPECT_GT(faults_of_tensors(), kPages / 2);

  keep_freed_memory();

  EXPECT_LT(faults_of_tensors(), kPages / 100);
}

}  // namespace
}  // namespace tg
