#include "model/init.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

#include "model/tied_rows.h"

namespace tg {

namespace {

// Draws on the CPU, as Python does before it moves the model.
class Generator {
 public:
  explicit Generator(std::int64_t seed)
      : generator_(at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed))) {}

  // Each result is valid until the next draw.
  // In another dtype than fp32, other numbers than a rounded fp32 draw.
  at::Tensor normal(at::IntArrayRef shape, double std = 1.0, at::ScalarType dtype = at::kFloat) {
    const auto drawn = dtype == at::kFloat ? buffer(shape) : at::empty(shape, dtype);
    return drawn.normal_(0.0, std, generator_);
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
      const auto& initial = part.initial;
      part.value.fill_(initial.dist == InitDist::constant ? initial.number : 0.0);
      if (initial.dist == InitDist::first_row) part.value.select(0, 0).fill_(initial.number);
      if (initial.dist == InitDist::values)
        part.value.copy_(at::tensor(initial.values, at::kDouble).view_as(part.value));
    }
  }
}

// The dtype of embedding tables: none has fewer bits.
at::ScalarType table_dtype(const ParameterTable& table) {
  const auto bits = [](const Parameter& row) { return row.value.element_size(); };
  return std::ranges::min(table.rows(), {}, bits).value.scalar_type();
}

// Multiplies `drawn` in place by the factor in fp32, as Python's product of a tensor and a number
// does; mul_(Scalar) would round the factor to the tensor's dtype.
const at::Tensor& scaled(const at::Tensor& drawn, double factor) {
  return drawn.mul_(at::scalar_tensor(factor));
}

// The part's own Initial.
void make_initial(const Initial& initial, const at::Tensor& value, const ParameterTable& table,
                  Generator& generator) {
  const auto drawn_like = initial.transposed ? value.t() : value;
  const auto shape = drawn_like.sizes();
  const auto keep = [&](const at::Tensor& drawn) {
    value.copy_(initial.transposed ? drawn.t() : drawn);
  };
  switch (initial.dist) {
    case InitDist::normal:
      return keep(scaled(generator.normal(shape, initial.number,
                                          initial.in_table_dtype ? table_dtype(table) : at::kFloat),
                         initial.factor));
    case InitDist::normal_sign:
      return keep(generator.normal(shape).sign_());
    case InitDist::orthogonal:
      return keep(generator.orthogonal(shape[0], shape[1]));
    case InitDist::uniform:
      return keep(generator.uniform(shape, initial.number));
    case InitDist::constant:
    case InitDist::first_row:
    case InitDist::torch_default:
    case InitDist::values:
      break;
  }
}

// Always draws as the constructor does, but keeps the draw only if the part's Initial uses it.
void make(const Draw& draw, const ParameterTable& table, Generator& generator) {
  const auto& part = table.rows()[static_cast<std::size_t>(draw.parameter.row)].parts[draw.part];
  const auto dist = part.initial.dist;
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
      make_initial(part.initial, value, table, generator);
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
