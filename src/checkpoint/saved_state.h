#pragma once
// Interface of the state that checkpoints save and load by name, like PyTorch's
// torch.distributed.checkpoint.stateful.Stateful.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <variant>

#include "checkpoint/model_record.h"

namespace tg {

using StateScalar = std::variant<std::int64_t, double, bool>;

// Distribution of a tensor over the ranks.
enum class Placement {
  replicated,  // every rank, with the same values
  sharded,     // this rank alone
  summed,      // every rank, as its part of a sum over ranks
};
// Returns the name of a rank's part of a sum.
inline std::string part_of_rank(const std::string& name, std::int64_t rank) {
  return name + ".rank" + std::to_string(rank);
}

// Called with every element of the state by name, always in the same order. It may assign scalars
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

// Passes scalars and tensors of the state to two functions.
class StateReader final : public StateVisitor {
 public:
  std::function<void(const std::string&, StateScalar)> scalar = [](const auto&, auto) {};
  std::function<void(const std::string&, const at::Tensor&, Placement)> tensor =
      [](const auto&, const auto&, auto) {};

  void operator()(const std::string& name, std::int64_t& value) override { scalar(name, value); }
  void operator()(const std::string& name, double& value) override { scalar(name, value); }
  void operator()(const std::string& name, bool& value) override { scalar(name, value); }
  void operator()(const std::string& name, const at::Tensor& value, Placement placement) override {
    tensor(name, value, placement);
  }
};

// State of a run between two steps, while the device is idle and the clock is stopped.
class SavedState {
 public:
  virtual ~SavedState() = default;
  virtual void visit(StateVisitor& visitor) = 0;
  // Returns the record of the state's model, with the present `step`.
  virtual ModelRecord record() const = 0;

  std::int64_t step = 0;  // steps done and read back

  void for_each_tensor(const std::function<void(const std::string&, const at::Tensor&)>& function) {
    StateReader reader;
    reader.tensor = [&](const auto& name, const auto& value, auto) { function(name, value); };
    visit(reader);
  }
  void for_each_scalar(std::function<void(const std::string&, StateScalar)> function) {
    StateReader reader;
    reader.scalar = std::move(function);
    visit(reader);
  }
};

}  // namespace tg
