#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "device/gpu_graphs.h"

namespace tg {

// Work in parts that runs again and again, each time in order and on the same tensors of `device`.
// With `graphs`, on a GPU, it runs as it is the first time, when plans are chosen and lasting
// tensors made, is recorded at the second and replayed from then on; what else a part does on the
// host does not happen then. Where it cannot be recorded, a warning says why, and it runs as it is.
class Replayed {
 public:
  using Part = std::function<void()>;
  // `name` as the warning has it: "the step".
  Replayed(std::string name, std::vector<Part> parts, at::Device device, bool graphs)
      : name_(std::move(name)), parts_(std::move(parts)), records_(graphs && device.is_cuda()) {}

  // Or else every run is as it is, and its tensors may be others.
  bool records() const { return records_; }
  void run(std::size_t part);
  // What was recorded is no longer what the parts do: begins anew.
  void forget();

 private:
  void record();

  std::string name_;
  std::vector<Part> parts_;
  bool records_;
  bool has_run_ = false;  // to its last part
  GpuGraphs graphs_;
};

}  // namespace tg
