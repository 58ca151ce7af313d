#pragma once
// Tensors for tests: seeded inputs, and comparisons that name the worst element.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace tg::test {

inline at::Generator generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

// Standard normal values, drawn in fp64 and rounded once.
inline at::Tensor normal(at::IntArrayRef shape, std::uint64_t seed,
                         at::ScalarType dtype = at::kDouble) {
  const auto count = c10::multiply_integers(shape);
  if (count % 16 != 0) {
    return at::empty(shape, at::kDouble).normal_(0.0, 1.0, generator(seed)).to(dtype);
  }
  // Gives the same numbers as normal_(), which computes them one by one, but vectorized.
  const auto drawn = at::empty({count / 16, 2, 8}, at::kDouble).uniform_(0, 1, generator(seed));
  const auto radius = (1 - drawn.select(1, 0)).log().mul(-2).sqrt();
  const auto angle = drawn.select(1, 1) * (2 * std::numbers::pi);
  return at::stack({radius * angle.cos(), radius * angle.sin()}, 1).view(shape).to(dtype);
}

// Integers in [0, high).
inline at::Tensor integers(at::IntArrayRef shape, std::int64_t high, std::uint64_t seed) {
  return at::empty(shape, at::kLong).random_(0, high, generator(seed));
}

inline at::Tensor tensor_of(const std::vector<double>& values, at::IntArrayRef shape,
                            at::ScalarType dtype = at::kDouble) {
  return at::tensor(values, at::kDouble).reshape(shape).to(dtype);
}

inline std::vector<double> values_of(const at::Tensor& tensor) {
  const auto flat = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

// Expects every element within atol + rtol·|expected|; NaN is never close.
inline testing::AssertionResult is_close(const at::Tensor& actual, const at::Tensor& expected,
                                         double rtol, double atol) {
  if (actual.sizes() != expected.sizes()) {
    return testing::AssertionFailure()
           << "shape " << actual.sizes() << ", expected " << expected.sizes();
  }
  const auto as_doubles = [](const at::Tensor& tensor) {
    return tensor.detach().to(at::kCPU, at::kDouble);
  };
  const auto reference = as_doubles(expected);
  const auto tolerance = reference.abs() * rtol + atol;
  if (((as_doubles(actual) - reference).abs() <= tolerance).all().item<bool>()) {
    return testing::AssertionSuccess();
  }
  const auto a = values_of(actual), e = values_of(expected);
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - e[i]);
    if (difference == 0) continue;
    const double times = difference / (atol + rtol * std::abs(e[i]));
    if (times <= worst) continue;  // also false for NaN
    worst = times;
    at = i;
    if (std::isnan(times)) break;
  }
  return testing::AssertionFailure()
         << "element " << at << " of " << a.size() << " is " << a[at] << ", expected " << e[at]
         << " (shape " << actual.sizes() << ", " << worst << " times the tolerance)";
}

// Expects equal bits.
inline testing::AssertionResult is_same(const at::Tensor& actual, const at::Tensor& expected) {
  if (actual.scalar_type() == expected.scalar_type() && at::equal(actual, expected)) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "differs: " << is_close(actual, expected, 0, 0).message();
}

}  // namespace tg::test
