#pragma once
// What every optimizer test needs: the step's scalars, and state by name.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "optim/group_optimizer.h"
#include "optim/optimizer.h"
#include "tests/ops/tensors.h"

namespace tg::test {

inline StepScalars scalars(double lr_scale, double momentum = 0, double skip = 0) {
  const auto scalar = [](double value) { return at::full({}, value, at::kFloat); };
  return {scalar(lr_scale), scalar(momentum), scalar(skip)};
}

// `draw` of that shape; of a large one the same few numbers again and again, since to draw millions
// would be most of these tests' time. No two rows, and no two ranks' parts, begin alike.
inline at::Tensor drawn(at::IntArrayRef shape,
                        const std::function<at::Tensor(at::IntArrayRef)>& draw) {
  constexpr std::int64_t kPeriod = 10'007;
  const auto count = c10::multiply_integers(shape);
  if (count <= kPeriod) return draw(shape);
  return draw({kPeriod}).repeat(count / kPeriod + 1).narrow(0, 0, count).view(shape);
}

// A leaf of standard normal values.
inline at::Tensor leaf(at::IntArrayRef shape, std::uint64_t seed,
                       at::ScalarType dtype = at::kFloat) {
  return normal(shape, seed, dtype).set_requires_grad(true);
}

inline void set_gradient(const at::Tensor& parameter, const at::Tensor& gradient) {
  at::Tensor(parameter).mutable_grad() = gradient.to(parameter.scalar_type());
}

// A table of these leaves, all of them updated so.
inline ParameterTable table_of(const NamedTensors& parameters, const Update& update) {
  ParameterTable table;
  for (const auto& [name, value] : parameters)
    table.add({.name = name, .value = value, .update = update});
  return table;
}

// A table of banks that are Muon's by their shapes.
inline ParameterTable table_of_banks(const NamedTensors& banks) {
  ParameterTable table;
  for (const auto& [name, value] : banks) {
    table.add({.name = name,
               .value = value,
               .update = Update::muon_by_shape(value.size(-2), value.size(-1))});
  }
  return table;
}

inline ParameterRows rows_of(const ParameterTable& table) {
  ParameterRows rows;
  for (const auto& row : table.rows()) rows.push_back(&row);
  return rows;
}

inline at::Tensor named(const NamedTensors& state, const std::string& name) {
  for (const auto& [key, value] : state) {
    if (key == name) return value;
  }
  ADD_FAILURE() << "no " << name;
  return at::zeros({});
}

// Copies of the gradients that are there.
inline NamedTensors gradients_of(const ParameterTable& table) {
  NamedTensors all;
  for (const auto& row : table.rows()) {
    if (row.value.grad().defined()) all.emplace_back(row.name, row.value.grad().clone());
  }
  return all;
}

// State "NAME.I" of this rank's chunks of a parameter, [count, …].
inline at::Tensor chunks_of(const NamedTensors& state, const std::string& name) {
  std::vector<at::Tensor> chunks;
  for (const auto& [of_chunk, value] : state) {
    if (of_chunk.rfind(name + ".", 0) == 0) chunks.push_back(value);
  }
  return chunks.empty() ? at::empty({0}) : at::stack(chunks);
}

// Muon's momentum of this rank's matrices of a bank, [count, rows, columns].
inline at::Tensor momentum_of(const NamedTensors& state, const std::string& bank) {
  return chunks_of(state, "momentum." + bank);
}

// All state of an Optimizer or a GroupOptimizer.
NamedTensors state_of(const auto& optimizer) {
  auto state = optimizer.replicated_state();
  for (auto& named : optimizer.sharded_state()) state.push_back(std::move(named));
  return state;
}

inline NamedTensors clones(const NamedTensors& state) {
  NamedTensors copies;
  for (const auto& [name, value] : state) copies.emplace_back(name, value.detach().clone());
  return copies;
}

inline void expect_same(const NamedTensors& actual, const NamedTensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].first, expected[i].first);
    EXPECT_TRUE(is_same(actual[i].second.detach(), expected[i].second)) << actual[i].first;
  }
}

}  // namespace tg::test
