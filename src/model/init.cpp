#include "model/init.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "model/tied_rows.h"

namespace tg {

namespace {

// Draws in fp32 on the CPU, as Python does before it moves the model.
class Generator {
 public:
  explicit Generator(std::int64_t seed)
      : generator_(at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed))) {}

  // Each result is valid until the next draw.
  at::Tensor normal(at::IntArrayRef shape, double std = 1.0) {
    return buffer(shape).normal_(0.0, std, generator_);
  }
  // torch.nn.Linear's default for `shape` of a layer with this many inputs: Kaiming uniform with
  // a = √5, that is ±1/√inputs.
  at::Tensor linear(at::IntArrayRef shape, std::int64_t inputs) {
    return uniform(shape, 1.0 / std::sqrt(static_cast<double>(inputs)));
  }
  at::Tensor uniform(at::IntArrayRef shape, double bound) {
    return buffer(shape).uniform_(-bound, bound, generator_);
  }
  // torch.nn.init.orthogonal_: QR of a normal draw, taken the taller way, with R's diagonal
  // positive.
  at::Tensor orthogonal(std::int64_t rows, std::int64_t columns) {
    auto draw = normal({rows, columns});
    if (rows < columns) draw = draw.t();
    auto [q, r] = at::linalg_qr(draw);
    q = q * r.diagonal().sign();
    return rows < columns ? q.t() : q;
  }

 private:
  // One buffer for all draws: memory that a process touches first costs page faults.
  at::Tensor buffer(at::IntArrayRef shape) {
    const auto count = c10::multiply_integers(shape);
    if (!drawn_.defined() || drawn_.numel() < count) drawn_ = at::empty({count}, at::kFloat);
    return drawn_.narrow(0, 0, count).view(shape);
  }

  at::Generator generator_;
  at::Tensor drawn_;
};

// Sets all parameters to constants; make() overwrites the random ones.
void set_constants(const ParameterTable& table) {
  for (const auto& row : table.rows()) {
    for (const auto& part : row.parts) {
      const auto& [dist, number, transposed] = part.initial;
      part.value.fill_(dist == InitDist::constant ? number : 0.0);
      if (dist == InitDist::first_row) part.value.select(0, 0).fill_(number);
    }
  }
}

// Always draws as the constructor does, but keeps the draw only if the part's Initial uses it.
void make(const Draw& draw, const ParameterTable& table, Generator& generator) {
  const auto& part = table.rows()[static_cast<std::size_t>(draw.parameter.row)].parts[draw.part];
  const auto& [dist, number, transposed] = part.initial;
  const auto& value = part.value;
  const auto shape = value.sizes();
  switch (draw.as) {
    case Draw::As::embedding: {
      const auto drawn = generator.normal(shape);
      if (dist == InitDist::torch_default) value.copy_(drawn);
      break;
    }
    case Draw::As::linear: {
      const auto inputs = draw.weight ? table[draw.weight].size(-1) : shape.back();
      const auto drawn = generator.linear(shape, inputs);
      if (dist == InitDist::torch_default) value.copy_(drawn);
      break;
    }
    case Draw::As::initial:
      if (dist == InitDist::normal) value.copy_(generator.normal(shape, number));
      if (dist == InitDist::orthogonal) value.copy_(generator.orthogonal(shape[0], shape[1]));
      if (dist == InitDist::uniform) {
        const auto drawn = generator.uniform(transposed ? value.t().sizes() : shape, number);
        value.copy_(transposed ? drawn.t() : drawn);
      }
      break;
  }
}

}  // namespace

void initialize(ParameterTable& table, const std::vector<Draw>& draws, std::int64_t seed) {
  const at::NoGradGuard no_grad;
  set_constants(table);
  Generator generator(seed);
  for (const auto& draw : draws) make(draw, table, generator);
  copy_tied_values(tied_rows(table));
}

}  // namespace tg
