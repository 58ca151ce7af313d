#pragma once
// What is saved of a run and put back, by name, without knowing what it is: as PyTorch's
// torch.distributed.checkpoint.stateful.Stateful.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <variant>

#include "checkpoint/model_record.h"

namespace tg {

using StateScalar = std::variant<std::int64_t, double, bool>;

// Who has a tensor of the state.
enum class Placement {
  replicated,  // every rank, with the same values
  sharded,     // this rank alone
  summed,      // every rank, as its part of a sum over ranks
};
// The name of a rank's part of a sum.
inline std::string part_of_rank(const std::string& name, std::int64_t rank) {
  return name + ".rank" + std::to_string(rank);
}

// Is called with every part of the state by name, always in the same order. It may change scalars
// and write to tensors, with immediate effect. A scalar that counts tensors is visited before them.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  virtual void operator()(const std::string& name, std::int64_t& value) = 0;
  virtual void operator()(const std::string& name, double& value) = 0;
  virtual void operator()(const std::string& name, bool& value) = 0;
  virtual void operator()(const std::string& name, const at::Tensor& value,
                          Placement placement = Placement::replicated) = 0;
};

// Passes every part of the state to a function each for scalars and tensors.
class StateReader final : public StateVisitor {
 public:
  std::function<void(const std::string&, StateScalar)> scalar = [](const auto&, auto) {};
  std::function<void(const std::string&, const at::Tensor&)> tensor = [](const auto&, const auto&) {
  };

  void operator()(const std::string& name, std::int64_t& value) override { scalar(name, value); }
  void operator()(const std::string& name, double& value) override { scalar(name, value); }
  void operator()(const std::string& name, bool& value) override { scalar(name, value); }
  void operator()(const std::string& name, const at::Tensor& value, Placement) override {
    tensor(name, value);
  }
};

// Between two steps, with nothing under way on the device and the clock stopped.
class SavedState {
 public:
  virtual ~SavedState() = default;
  virtual void visit(StateVisitor& visitor) = 0;
  // The record of the model that the state holds, with the present `step`.
  virtual ModelRecord record() const = 0;

  std::int64_t step = 0;  // steps done, their metrics read back

  void for_each_tensor(std::function<void(const std::string&, const at::Tensor&)> function) {
    StateReader reader;
    reader.tensor = std::move(function);
    visit(reader);
  }
  void for_each_scalar(std::function<void(const std::string&, StateScalar)> function) {
    StateReader reader;
    reader.scalar = std::move(function);
    visit(reader);
  }
};

}  // namespace tg
