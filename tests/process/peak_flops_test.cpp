#include <gtest/gtest.h>

#include "process/machine.h"

namespace tg {
namespace {

TEST(PeakFlops, AreThoseOfTheWholeName) {
  EXPECT_EQ(peak_bf16_flops("NVIDIA B200"), 2250e12);
  EXPECT_EQ(peak_bf16_flops("NVIDIA GB200"), 2500e12);
  EXPECT_EQ(peak_bf16_flops("NVIDIA H200"), 989.5e12);
  EXPECT_EQ(peak_bf16_flops("NVIDIA GH200 480GB"), 989.5e12);
  EXPECT_EQ(peak_bf16_flops("NVIDIA H200 NVL"), 836e12);
  EXPECT_EQ(peak_bf16_flops("NVIDIA H100 80GB HBM3"), 989.5e12);
  EXPECT_EQ(peak_bf16_flops("NVIDIA H100 PCIe"), 756e12);
  EXPECT_EQ(peak_bf16_flops("NVIDIA H100 NVL"), 835e12);
  EXPECT_EQ(peak_bf16_flops("NVIDIA A100-SXM4-80GB"), 312e12);
  EXPECT_EQ(peak_bf16_flops("NVIDIA GeForce RTX 4090"), 165.2e12);
}

TEST(PeakFlops, AreUnknownOfOtherGpus) {
  for (const char* gpu : {"", "NVIDIA GB2000", "NVIDIA XB200", "NVIDIA H20", "NVIDIA A10",
                          "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA L40"}) {
    EXPECT_EQ(peak_bf16_flops(gpu), 0) << gpu;
  }
}

}  // namespace
}  // namespace tg
