#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// Draws on the CPU, as Python does before it moves the model: the numbers are ATen's, and each draw
// advances the generator as ATen's does.
class Generator {
 public:
  explicit Generator(std::int64_t seed);

  // Each result is valid until the next draw.
  // In another dtype than fp32, other numbers than a rounded fp32 draw.
  at::Tensor normal(at::IntArrayRef shape, double std = 1.0, at::ScalarType dtype = at::kFloat);
  // Advances the generator like normal(shape), without computing the numbers.
  void skip_normal(at::IntArrayRef shape);
  // torch.nn.Linear's default for `shape` of a layer with this many inputs: Kaiming uniform with
  // a = √5, that is ±1/√inputs.
  at::Tensor linear(at::IntArrayRef shape, std::int64_t inputs);
  at::Tensor uniform(at::IntArrayRef shape, double bound);
  // torch.nn.init.orthogonal_: QR of a normal draw, taken the taller way, with R's diagonal
  // positive.
  at::Tensor orthogonal(std::int64_t rows, std::int64_t columns);

 private:
  at::Tensor buffer(at::IntArrayRef shape);
  std::uint32_t random();
  at::Tensor normal_bf16(at::IntArrayRef shape, double std);

  at::Generator generator_;
  // One buffer for all fp32 draws: memory that a process touches first costs page faults.
  at::Tensor drawn_;
};

}  // namespace tg
