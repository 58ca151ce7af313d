#include "model/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/BFloat16-math.h>
#include <c10/util/MathConstants.h>

#include <array>
#include <cmath>
#include <vector>

namespace tg {

namespace {

// ATen draws fewer normal numbers one by one.
constexpr std::int64_t kVectorized = 16;
// ATen's normal_fill() makes two normal numbers (Box and Muller 1958) of the uniform numbers i and
// i + 8 of each 16.
constexpr std::int64_t kGroup = 16, kPairs = kGroup / 2;
// A uniform number in bf16 is one of 2^8.
constexpr std::uint32_t kUniforms = 1U << 8;

struct NormalPair {
  c10::BFloat16 cosine, sine;
};
// The pairs of all uniform numbers (u1, u2), with ATen's roundings.
std::vector<NormalPair> normal_pairs(double std) {
  std::vector<NormalPair> pairs(kUniforms * kUniforms);
  const c10::BFloat16 scale = static_cast<float>(std), mean = 0.0F;
  const auto uniform = [](std::uint32_t i) {
    return c10::BFloat16(static_cast<float>(i) / static_cast<float>(kUniforms));
  };
  for (std::uint32_t i = 0; i < kUniforms; ++i) {
    const c10::BFloat16 u1 = 1 - uniform(i), radius = std::sqrt(-2 * std::log(u1));
    for (std::uint32_t j = 0; j < kUniforms; ++j) {
      const c10::BFloat16 theta = static_cast<float>(2.0F * c10::pi<double> * uniform(j));
      pairs[i * kUniforms + j] = {radius * std::cos(theta) * scale + mean,
                                  radius * std::sin(theta) * scale + mean};
    }
  }
  return pairs;
}

}  // namespace

Generator::Generator(std::int64_t seed)
    : generator_(at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed))) {}

at::Tensor Generator::normal(at::IntArrayRef shape, double std, at::ScalarType dtype) {
  if (dtype == at::kBFloat16 && c10::multiply_integers(shape) >= kVectorized)
    return normal_bf16(shape, std);
  const auto drawn = dtype == at::kFloat ? buffer(shape) : at::empty(shape, dtype);
  return drawn.normal_(0.0, std, generator_);
}

// ATen computes each number anew, with library calls, and takes five times as long.
at::Tensor Generator::normal_bf16(at::IntArrayRef shape, double std) {
  const auto pairs = normal_pairs(std);
  const auto drawn = at::empty(shape, at::kBFloat16);
  auto* const out = drawn.mutable_data_ptr<c10::BFloat16>();
  const auto fill = [&](std::int64_t first) {
    std::array<std::uint32_t, kGroup> uniforms{};
    for (auto& u : uniforms) u = random() % kUniforms;
    for (std::int64_t i = 0; i < kPairs; ++i) {
      const auto j = static_cast<std::size_t>(i);
      const auto& pair = pairs[uniforms[j] * kUniforms + uniforms[j + kPairs]];
      out[first + i] = pair.cosine;
      out[first + kPairs + i] = pair.sine;
    }
  };
  const auto count = drawn.numel(), rest = count % kGroup;
  for (std::int64_t i = 0; i + kGroup <= count; i += kGroup) fill(i);
  if (rest == 0) return drawn;
  // ATen draws the rest, and then the last 16 numbers again.
  for (std::int64_t i = 0; i < rest; ++i) random();
  fill(count - kGroup);
  return drawn;
}

void Generator::skip_normal(at::IntArrayRef shape) {
  const auto count = c10::multiply_integers(shape);
  if (count < kVectorized) {
    normal(shape);
    return;
  }
  const auto again = count % kGroup == 0 ? 0 : kGroup;
  for (std::int64_t i = 0; i < count + again; ++i) random();
}

at::Tensor Generator::linear(at::IntArrayRef shape, std::int64_t inputs) {
  return uniform(shape, 1.0 / std::sqrt(static_cast<double>(inputs)));
}

at::Tensor Generator::uniform(at::IntArrayRef shape, double bound) {
  return buffer(shape).uniform_(-bound, bound, generator_);
}

at::Tensor Generator::orthogonal(std::int64_t rows, std::int64_t columns) {
  auto draw = normal({rows, columns});
  if (rows < columns) draw = draw.t();
  auto [q, r] = at::linalg_qr(draw);
  q = q * r.diagonal().sign();
  return rows < columns ? q.t() : q;
}

at::Tensor Generator::buffer(at::IntArrayRef shape) {
  const auto count = c10::multiply_integers(shape);
  if (!drawn_.defined() || drawn_.numel() < count) drawn_ = at::empty({count}, at::kFloat);
  return drawn_.narrow(0, 0, count).view(shape);
}

std::uint32_t Generator::random() {
  return generator_.get<at::CPUGeneratorImpl>()->random();
}

}  // namespace tg
