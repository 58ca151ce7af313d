#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "commands/tensor_table.h"

namespace tg::test {
namespace {

at::Tensor matrix(std::vector<float> values) {
  return at::tensor(values).reshape({2, 2});
}

// Values on int6's levels, so that int6 itself has no error.
const NamedTensors kModel{{"wq", matrix({31, -2, 0, 31})},
                          {"bank", at::stack({matrix({31, 0, 0, 31}), matrix({31, 5, 5, 31})})},
                          {"zero", matrix({0, 0, 0, 0})},
                          {"apart", matrix({31, 1, 1, 31})},
                          {"gain", at::ones({2})}};

TEST(QuantizationTable, SaysWhatInt6WouldCost) {
  EXPECT_EQ(quantization_text(kModel),
            "matrix   shape   int6 error     %  clipped %\n"
            "wq       [2, 2]              0.00      0.000\n"
            "bank[0]  [2, 2]              0.00      0.000\n"
            "bank[1]  [2, 2]              0.00      0.000\n"
            "zero     [2, 2]                 -          -\n"
            "apart    [2, 2]              0.00      0.000\n");
}

// One weight of wq is off by 3 of √(31² + 2² + 31²); the second matrix of the bank is scaled by a
// half. Tensors that the artifact lacks or has in another shape show no error.
TEST(QuantizationTable, SaysBesideItWhatAnArtifactLost) {
  const NamedTensors artifact{
      {"apart", at::ones({2, 3})},
      {"bank", at::stack({matrix({31, 0, 0, 31}), matrix({15.5, 2.5, 2.5, 15.5})})},
      {"wq", matrix({31, 1, 0, 31})},
      {"other", matrix({1, 2, 3, 4})}};
  EXPECT_EQ(quantization_text(kModel, &artifact),
            "matrix   shape   int6 error     %  clipped %  artifact %\n"
            "wq       [2, 2]              0.00      0.000        6.84\n"
            "bank[0]  [2, 2]              0.00      0.000        0.00\n"
            "bank[1]  [2, 2]              0.00      0.000       50.00\n"
            "zero     [2, 2]                 -          -           -\n"
            "apart    [2, 2]              0.00      0.000           -\n");
}

}  // namespace
}  // namespace tg::test
