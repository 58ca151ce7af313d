#include "model/init.h"

#include <algorithm>

#include "model/generator.h"
#include "model/tied_rows.h"

namespace tg {

namespace {

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
    case Draw::As::embedding:
      if (dist == InitDist::torch_default)
        value.copy_(generator.normal(shape));
      else
        generator.skip_normal(shape);
      break;
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
