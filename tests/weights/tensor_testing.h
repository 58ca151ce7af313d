#pragma once
// Tensors of every dtype that the store knows, and exact comparison.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "weights/tensors/named_tensors.h"

namespace tg {

// All ten dtypes, 0-d, empty, and strided ones. The wide follow the narrow, so that padding would
// show.
inline NamedTensors every_kind() {
  NamedTensors tensors;
  const at::Tensor ramp = at::arange(12, at::kFloat).reshape({3, 4}) - 3;
  for (auto dtype : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf,
                     at::kBFloat16, at::kFloat, at::kDouble})
    tensors.emplace_back(std::string("all.") + c10::toString(dtype),
                         dtype == at::kByte ? (ramp + 3).to(dtype) : ramp.to(dtype));
  tensors.emplace_back("scalar", at::scalar_tensor(0.1, at::kDouble));
  tensors.emplace_back("empty", at::empty({0, 3}));
  tensors.emplace_back("byte", at::full({1}, 200, at::kByte));
  tensors.emplace_back("transposed", ramp.t());
  tensors.emplace_back("part", ramp.slice(0, 1).slice(1, 1, 4, 2));
  tensors.emplace_back("non-finite", at::scalar_tensor(INFINITY));
  return tensors;
}

inline void expect_same(const NamedTensors& found, const NamedTensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].first, expected[i].first);
    EXPECT_EQ(found[i].second.scalar_type(), expected[i].second.scalar_type()) << found[i].first;
    EXPECT_TRUE(found[i].second.equal(expected[i].second)) << found[i].first;
  }
}

}  // namespace tg
